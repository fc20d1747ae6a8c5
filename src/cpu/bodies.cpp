// SPDX-License-Identifier: Apache-2.0
#include "cpu/bodies.h"

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
using Bodies = std::array<Body, static_cast<std::size_t>(program::Op::count)>;

template <ops::CpuOp... AllOps>
constexpr Bodies table_of() {
  Bodies bodies{};
  const auto enter = [&bodies](const auto& served, Body body) {
    for (const program::Op op : served) bodies[static_cast<std::size_t>(op)] = body;
  };
  (enter(AllOps::kOps, &AllOps::run_cpu), ...);
  return bodies;
}

constexpr Bodies kBodies =
    table_of<ops::Dispatch, ops::GateUp, ops::Down, ops::DHidden, ops::Dx, ops::WeightGrad, ops::SlotSum>();

constexpr bool complete(const Bodies& bodies) {
  for (const Body body : bodies) {
    if (body == nullptr) return false;
  }
  return true;
}
static_assert(complete(kBodies), "an op has no CPU body");

}  // namespace

void run_body(const ops::RankView& view, const program::Task& task, TileBuffer& buffer) {
  kBodies[static_cast<std::size_t>(task.op)](view, task, buffer);
}

}  // namespace mok::cpu
