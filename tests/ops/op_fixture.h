// SPDX-License-Identifier: Apache-2.0
// A group of ranks with all memory that ops see, filled with NaN, in which one op at a time is run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mok/bfloat16.h>
#include <mok/config.h>

#include "cpu/tile_buffer.h"
#include "group/host_buffer.h"
#include "group/virtual_group.h"
#include "ops/cpu_op.h"
#include "ops/rank_view.h"
#include "program/layout.h"
#include "program/schedule.h"
#include "program/task.h"

namespace mok::ops {

/// Widths that end in the middle of a tile, ranks that end in the middle of one, an expert without rows,
/// dropped routes, a shared expert of another width.
struct OpShape {
  std::vector<std::int64_t> tokens = {210, 97};  ///< of each rank
  std::int64_t hidden = 320;
  std::int64_t intermediate = 192;
  std::int64_t shared_intermediate = 64;
  std::int64_t macrobatch = 131072;
  float limit = std::numeric_limits<float>::infinity();
  static constexpr int kTopk = 3;
  static constexpr int kExperts = 6;
  static constexpr int kExpertWithoutRows = 1;
};

/// Seeded numbers of both signs, of about unit size.
class Values {
 public:
  explicit Values(std::uint32_t seed) : engine_(seed) {}
  float next() { return (upper_bits() + upper_bits()) * 0x1p-23f - 2.0f; }
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(engine_()) % count; }
  void fill(std::span<bfloat16> to) {
    for (bfloat16& value : to) value = to_bfloat16(next());
  }
  void fill(std::span<float> to) {
    for (float& value : to) value = next();
  }

 private:
  float upper_bits() { return static_cast<float>(engine_() >> 8); }

  std::mt19937 engine_;
};

/// Memory of one rank that belongs to the caller of the layer.
struct CallersMemory {
  std::int64_t tokens = 0;
  std::vector<std::int32_t> ids;
  std::vector<bfloat16> x, grad_output, out;
  std::vector<float> router_weights, d_router_weights;
};

class OpFixture {
 public:
  OpFixture(const OpShape& shape, program::Pass pass) : shape_(shape), pass_(pass), values_(4711) {
    config_.minibatch_size = program::kRowTile;
    config_.macrobatch_size = shape.macrobatch;
    config_.schedule_capacity_multiplier = 1.0;
    options_ = {static_cast<int>(shape.tokens.size()), 0, shape.hidden, OpShape::kTopk, {}};
    for (const std::int64_t tokens : shape.tokens)
      options_.max_tokens = std::max(options_.max_tokens, tokens);
    make_weights(routed_, OpShape::kExperts, shape.intermediate);
    make_weights(shared_, 1, shape.shared_intermediate);
    symmetric_ =
        group::VirtualGroup(options_.ranks, program::make_layout<program::SymmetricLayout>(dims(0)).bytes);
    for (int rank = 0; rank < options_.ranks; ++rank) {
      make_callers_memory(shape.tokens[static_cast<std::size_t>(rank)]);
      fill_with_nan(symmetric_.peers()[rank],
                    program::make_layout<program::SymmetricLayout>(dims(rank)).bytes);
    }
    for (int rank = 0; rank < options_.ranks; ++rank) make_view(rank);
  }

  [[nodiscard]] int ranks() const { return options_.ranks; }
  RankView& view(int rank) { return views_[static_cast<std::size_t>(rank)]; }
  CallersMemory& callers(int rank) { return callers_[static_cast<std::size_t>(rank)]; }
  Values& values() { return values_; }

  /// The tasks of an op in a rank's order.
  [[nodiscard]] std::vector<program::Task> tasks(int rank, program::Op op) {
    const RankView& mine = view(rank);
    std::vector<program::Task> result;
    for (const program::Role role : {program::Role::communication, program::Role::compute}) {
      const std::int64_t count = program::num_tasks(mine.dims, mine.tables, pass_, role);
      for (std::int64_t i = 0; i < count; ++i) {
        const program::Task task = program::decode_task(mine.dims, mine.tables, pass_, role, i);
        if (task.op == op) result.push_back(task);
      }
    }
    return result;
  }
  template <CpuOp TheOp>
  void run(int rank, program::Op op) {
    for (const program::Task& task : tasks(rank, op)) TheOp::run_cpu(view(rank), task, *buffer_);
  }

  [[nodiscard]] std::int64_t padded_rows(int rank) {
    return view(rank).tables.header->num_tiles * program::kRowTile;
  }
  [[nodiscard]] bool is_padding(int rank, std::int64_t row) { return view(rank).tables.source_rank[row] < 0; }
  [[nodiscard]] std::int32_t expert_of(int rank, std::int64_t row) {
    return view(rank).tables.tile_expert[row / program::kRowTile];
  }
  /// Random rows, and zeros where padding stands: as the op that owns the buffer leaves it.
  void fill_rows(int rank, bfloat16* rows, std::int64_t cols) {
    for (std::int64_t row = 0; row < padded_rows(rank); ++row) {
      const std::span<bfloat16> to(rows + row * cols, static_cast<std::size_t>(cols));
      values_.fill(to);
      if (is_padding(rank, row)) std::fill(to.begin(), to.end(), bfloat16{});
    }
  }

 private:
  struct WeightMemory {
    std::vector<bfloat16> gate, up, down;
  };
  struct RankMemory {
    group::HostBuffer schedule, local, context;
  };

  static void fill_with_nan(std::byte* memory, std::int64_t bytes) {
    std::memset(memory, 0xFF, static_cast<std::size_t>(bytes));
  }

  [[nodiscard]] program::Dims dims(int rank) const {
    return program::make_dims(config_, options_,
                              {OpShape::kExperts, shape_.intermediate, shape_.shared_intermediate}, rank, {});
  }

  void make_weights(WeightMemory& weights, std::int64_t experts, std::int64_t intermediate) {
    for (std::vector<bfloat16>* weight : {&weights.gate, &weights.up, &weights.down}) {
      weight->resize(static_cast<std::size_t>(experts * intermediate * shape_.hidden));
      values_.fill(*weight);
    }
  }
  [[nodiscard]] Weights bind(const WeightMemory& weights, std::int64_t first_expert,
                             std::int64_t stride) const {
    const std::int64_t first = first_expert * stride;
    return {{weights.gate.data() + first, stride},
            {weights.up.data() + first, stride},
            {weights.down.data() + first, stride}};
  }

  void make_callers_memory(std::int64_t tokens) {
    CallersMemory memory;
    memory.tokens = tokens;
    const auto rows = static_cast<std::size_t>(tokens);
    const std::size_t elements = rows * static_cast<std::size_t>(shape_.hidden);
    const bfloat16 nan{0xFFFF};
    memory.x.resize(elements);
    memory.grad_output.resize(elements);
    memory.out.assign(elements, nan);
    memory.router_weights.resize(rows * OpShape::kTopk);
    memory.d_router_weights.assign(rows * OpShape::kTopk, to_float(nan));
    values_.fill(memory.x);
    values_.fill(memory.grad_output);
    values_.fill(memory.router_weights);
    for (std::size_t i = 0; i < rows * OpShape::kTopk; ++i) {
      const auto id = static_cast<std::int32_t>(values_.below(OpShape::kExperts));
      memory.ids.push_back(id == OpShape::kExpertWithoutRows ? -1 : id);
    }
    callers_.push_back(std::move(memory));
  }

  void make_schedule(int rank, RankMemory& memory, RankView& view) {
    const auto layout = program::make_layout<program::ScheduleLayout>(view.dims);
    memory.schedule = group::HostBuffer(layout.bytes, "a schedule");
    std::byte* const base = memory.schedule.data();
    view.tables = layout.tables(base, view.dims);
    std::int32_t* const gathered = layout.gathered.at(base);
    std::fill_n(gathered, layout.gathered.count, -1);
    for (int peer = 0; peer < options_.ranks; ++peer) {
      const std::vector<std::int32_t>& ids = callers(peer).ids;
      std::copy(ids.begin(), ids.end(), gathered + peer * view.dims.slots());
    }
    program::build_schedule(
        view.dims, {gathered, callers(rank).tokens, layout.histogram.at(base), layout.expert_tile.at(base)},
        view.tables);
    ASSERT_EQ(program::Refusal::none, view.tables.header->refusal);
  }

  void make_view(int rank) {
    RankView view;
    RankMemory memory;
    view.dims = dims(rank);
    view.pass = pass_;
    view.limit = {shape_.limit};
    view.symmetric = program::make_layout<program::SymmetricLayout>(view.dims);
    view.peers = symmetric_.peers();
    make_schedule(rank, memory, view);
    const auto local = program::make_layout<program::LocalLayout>(view.dims);
    const auto context = program::make_layout<program::ContextLayout>(view.dims);
    memory.local = group::HostBuffer(local.bytes, "local memory");
    memory.context = group::HostBuffer(context.bytes, "a context");
    std::byte* const base = memory.local.data();
    std::byte* const saved = memory.context.data();
    fill_with_nan(base, local.bytes);
    fill_with_nan(saved, context.bytes);
    view.saved = {context.x.at(saved), context.gate.at(saved), context.up.at(saved)};
    view.replay = {local.replay_x.at(base), local.replay_gate.at(base), local.replay_up.at(base)};
    view.shared_gate = context.shared_gate.at(saved);
    view.shared_up = context.shared_up.at(saved);
    view.hidden = local.hidden.at(base);
    view.grad_rows = local.grad_rows.at(base);
    view.row_weights = local.row_weights.at(base);
    view.d_gate = local.d_gate.at(base);
    view.d_up = local.d_up.at(base);
    view.weight_partials = local.weight_partials.at(base);
    view.carry = local.carry.at(base);
    view.shared_hidden = local.shared_hidden.at(base);
    view.shared_d_gate = local.shared_d_gate.at(base);
    view.shared_d_up = local.shared_d_up.at(base);
    view.shared_out = local.shared_out.at(base);
    CallersMemory& mine = callers(rank);
    view.x = mine.x.data();
    view.router_weights = mine.router_weights.data();
    view.grad_output = pass_ == program::Pass::backward ? mine.grad_output.data() : nullptr;
    view.out = mine.out.data();
    view.d_router_weights = mine.d_router_weights.data();
    view.routed = bind(routed_, static_cast<std::int64_t>(rank) * view.dims.local_experts(),
                       shape_.intermediate * shape_.hidden);
    view.shared = bind(shared_, 0, 0);
    memory_.push_back(std::move(memory));
    views_.push_back(view);
  }

  OpShape shape_;
  program::Pass pass_;
  Values values_;
  Config config_;
  WorkspaceOptions options_;
  WeightMemory routed_, shared_;
  group::VirtualGroup symmetric_;
  std::vector<CallersMemory> callers_;
  std::vector<RankMemory> memory_;
  std::vector<RankView> views_;
  std::unique_ptr<cpu::TileBuffer> buffer_ = std::make_unique<cpu::TileBuffer>();
};

inline double widen(bfloat16 value) { return static_cast<double>(to_float(value)); }
inline bool is_nan(bfloat16 value) { return std::isnan(to_float(value)); }

/// A dot product in float64, with the most by which a float32 sum of its terms, in whatever order, differs
/// from it: one rounding (2^-24 of what has been added up) per term, products of bf16 numbers being exact.
struct Dot {
  double value = 0;
  double magnitude = 0;  ///< sum of the terms' magnitudes
  std::int64_t terms = 0;

  void add(double a, double b) {
    value += a * b;
    magnitude += std::abs(a * b);
    ++terms;
  }
  [[nodiscard]] double error() const { return static_cast<double>(terms + 1) * 0x1p-24 * magnitude; }
};

/// a[0] b[0] + ... of vectors whose elements lie `a_stride` and `b_stride` apart.
inline Dot dot(const bfloat16* a, std::int64_t a_stride, const bfloat16* b, std::int64_t b_stride,
               std::int64_t count) {
  Dot result;
  for (std::int64_t k = 0; k < count; ++k) result.add(widen(a[k * a_stride]), widen(b[k * b_stride]));
  return result;
}

/// The derivative of f at x, by central differences of two widths extrapolated: ten digits for what is smooth
/// on the scale of 1, all of them for what is linear.
template <class Function>
double derivative(Function f, double x) {
  const auto central = [&](double h) { return (f(x + h) - f(x - h)) / (2 * h); };
  constexpr double kWidth = 0x1p-8;
  return (4 * central(kWidth / 2) - central(kWidth)) / 3;
}

/// Half a unit of bf16 in the last place, of a value that is off by up to `error` before it is rounded.
inline double rounded_error(double value, double error) { return error + 0x1p-8 * (std::abs(value) + error); }

inline bool is_rounded(bfloat16 got, const Dot& exact) {
  return std::abs(widen(got) - exact.value) <= rounded_error(exact.value, exact.error());
}

}  // namespace mok::ops
