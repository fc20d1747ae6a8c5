// SPDX-License-Identifier: Apache-2.0
#include "cpu/bodies.h"

#include <algorithm>
#include <array>

#include "ops/dhidden/dhidden.h"
#include "ops/dispatch/dispatch.h"
#include "ops/down/down.h"
#include "ops/dx/dx.h"
#include "ops/gate_up/gate_up.h"
#include "ops/slot_sum/slot_sum.h"
#include "ops/weight_grad/weight_grad.h"

namespace mok::cpu {
namespace {

using Body = void (*)(const ops::RankView&, const program::Task&, TileBuffer&);

/// The CPU bodies of a list of ops, by program op.
template <ops::CpuOp... Ops>
struct BodyTable {
  /// Every program op has one body. Counted rather than looked up: comparing function pointers is no constant
  /// expression where the undefined-behaviour sanitizer is on.
  static constexpr bool complete() {
    std::array<int, program::kNumOps> bodies{};
    const auto count = [&bodies](const auto& served) {
      for (const program::Op op : served) ++bodies[static_cast<std::size_t>(op)];
    };
    (count(Ops::kOps), ...);
    return std::all_of(bodies.begin(), bodies.end(), [](int count_of_op) { return count_of_op == 1; });
  }

  static std::array<Body, program::kNumOps> make() {
    std::array<Body, program::kNumOps> bodies{};
    const auto enter = [&bodies](const auto& served, Body body) {
      for (const program::Op op : served) bodies[static_cast<std::size_t>(op)] = body;
    };
    (enter(Ops::kOps, &Ops::run_cpu), ...);
    return bodies;
  }
};

using Bodies =
    BodyTable<ops::Dispatch, ops::GateUp, ops::Down, ops::DHidden, ops::Dx, ops::WeightGrad, ops::SlotSum>;
static_assert(Bodies::complete(), "an op has no CPU body, or two");

const std::array<Body, program::kNumOps> kBodies = Bodies::make();

}  // namespace

void run_body(const ops::RankView& view, const program::Task& task, TileBuffer& buffer) {
  kBodies[static_cast<std::size_t>(task.op)](view, task, buffer);
}

}  // namespace mok::cpu
