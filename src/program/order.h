// SPDX-License-Identifier: Apache-2.0
// The order in which a rank's roles claim tasks, as stretches.
//
// One total order over the tasks of all ranks: by phase, then communication before compute, then rank, then
// index. Every rank's lists ascend in it, and a task waits only on tasks that stand before it. That is the
// argument against deadlock; the verifier checks it.
#pragma once

#include <cstdint>

#include "program/dims.h"
#include "program/steps.h"
#include "program/tables.h"

namespace mok::program {

/// Tiles of an op's columns.
MOK_HOST_DEVICE constexpr std::int64_t col_tiles(const Dims& dims, Op op) {
  switch (op) {
    case Op::gate_up:
      return ceil_div(dims.intermediate, dims.tile.gate_up_cols);
    case Op::shared_gate_up:
      return ceil_div(dims.shared_intermediate, dims.tile.gate_up_cols);
    case Op::dhidden:
      return ceil_div(dims.intermediate, dims.tile.dhidden_cols);
    case Op::shared_dhidden:
      return ceil_div(dims.shared_intermediate, dims.tile.dhidden_cols);
    case Op::down:
    case Op::shared_down:
      return ceil_div(dims.hidden, dims.tile.down_cols);
    case Op::dx:
    case Op::shared_dx:
      return ceil_div(dims.hidden, dims.tile.dx_cols);
    default:
      return 1;
  }
}

/// Output tiles of a weight gradient: gate and up are [I,H], down is [H,I].
struct WeightGradTiles {
  std::int64_t gate_rows, gate_cols, down_rows, down_cols;

  MOK_HOST_DEVICE static constexpr WeightGradTiles make(const Dims& dims, bool shared) {
    const std::int64_t intermediate = shared ? dims.shared_intermediate : dims.intermediate;
    return {ceil_div(intermediate, dims.tile.weight_grad_rows),
            ceil_div(dims.hidden, dims.tile.weight_grad_cols),
            ceil_div(dims.hidden, dims.tile.weight_grad_rows),
            ceil_div(intermediate, dims.tile.weight_grad_cols)};
  }
  MOK_HOST_DEVICE constexpr std::int64_t per_matrix(Matrix matrix) const {
    return matrix == Matrix::down ? down_rows * down_cols : gate_rows * gate_cols;
  }
  MOK_HOST_DEVICE constexpr std::int64_t per_expert() const {
    return 2 * gate_rows * gate_cols + down_rows * down_cols;
  }
};

/// Tasks that one unit of each op makes in this layer: none where an op does not occur.
struct TasksPerUnit {
  std::int64_t of[kNumOps] = {};

  MOK_HOST_DEVICE static constexpr TasksPerUnit make(const Dims& dims) {
    TasksPerUnit tasks;
    for (int op = 0; op < kNumOps; ++op) {
      const bool absent = is_shared(static_cast<Op>(op)) && dims.shared_intermediate == 0;
      tasks.of[op] = absent ? 0 : col_tiles(dims, static_cast<Op>(op));
    }
    tasks.of[static_cast<int>(Op::weight_grad)] = WeightGradTiles::make(dims, false).per_expert();
    tasks.of[static_cast<int>(Op::shared_weight_grad)] = WeightGradTiles::make(dims, true).per_expert();
    return tasks;
  }
  MOK_HOST_DEVICE constexpr std::int64_t in(const Part& part) const {
    return part.units * of[static_cast<int>(part.op)];
  }
  MOK_HOST_DEVICE constexpr std::int64_t in(const Stretch& stretch) const {
    std::int64_t sum = 0;
    for (int p = 0; p < stretch.num_parts; ++p) sum += in(stretch.parts[p]);
    return sum;
  }
  /// Index of a stretch's first task.
  MOK_HOST_DEVICE constexpr std::int64_t before(const Stretch& stretch) const {
    std::int64_t sum = 0;
    for (int op = 0; op < kNumOps; ++op) sum += stretch.units_before[op] * of[op];
    return sum;
  }
};

/// Tasks of a role in a pass.
MOK_HOST_DEVICE inline std::int64_t num_tasks(const Dims& dims, const ScheduleTables& tables, Pass pass,
                                              Role role) {
  const std::int32_t stretches = tables.header->num_stretches[static_cast<int>(pass)][static_cast<int>(role)];
  if (stretches == 0) return 0;
  const Stretch& last = tables.stretches[static_cast<int>(pass)][static_cast<int>(role)][stretches - 1];
  const TasksPerUnit tasks = TasksPerUnit::make(dims);
  return tasks.before(last) + tasks.in(last);
}

namespace detail {

/// Appends stretches to one role's list, or only counts them.
struct OrderWriter {
  Stretch* out = nullptr;  ///< null = count only
  std::int32_t count = 0;
  std::int32_t units[kNumOps] = {};
  Stretch open = {};  ///< between begin and end: an empty stretch leaves no trace in the list

  MOK_HOST_DEVICE void begin(std::int64_t phase, std::int64_t step) {
    open.phase = phase;
    open.step = static_cast<std::int32_t>(step);
    open.num_parts = 0;
    for (Part& part : open.parts) part = Part{};
    for (int op = 0; op < kNumOps; ++op) open.units_before[op] = units[op];
  }
  MOK_HOST_DEVICE void part(Op op, std::int64_t minibatch, std::int64_t first, std::int64_t num_units) {
    if (num_units == 0) return;
    const auto added = static_cast<std::int32_t>(num_units);
    open.parts[open.num_parts++] = {op, static_cast<std::int32_t>(minibatch),
                                    static_cast<std::int32_t>(first), added};
    units[static_cast<int>(op)] += added;
  }
  MOK_HOST_DEVICE void end() {
    if (open.num_parts == 0) return;
    if (out != nullptr) out[count] = open;
    ++count;
  }
  MOK_HOST_DEVICE void single(std::int64_t phase, std::int64_t step, Op op, std::int64_t minibatch,
                              std::int64_t first, std::int64_t num_units) {
    begin(phase, step);
    part(op, minibatch, first, num_units);
    end();
  }
};

/// Builds the lists of one pass. They are the concatenation of sections, each of which can be built alone
/// when the writers hold what stands before it: a GPU builds all sections at once.
struct OrderBuilder {
  const Dims& dims;
  const ScheduleTables& tables;
  Pass pass;
  Steps steps = Steps::make(dims, tables.header->num_tiles, pass);
  OrderWriter compute = {};
  OrderWriter communication = {};

  // Places within a step. A step's first ops stand at `opening` when its macrobatch begins there, because
  // they reuse ring slots of the step before; otherwise they were looked ahead to in the step before.
  enum Place : std::int64_t { opening, opening_next, ahead, main, shared, sum, places };

  MOK_HOST_DEVICE static constexpr std::int64_t phase(std::int64_t step, Place place) {
    return (step + 1) * places + place;  // phase 0 is the prologue
  }
  MOK_HOST_DEVICE std::int64_t tiles(std::int64_t minibatch) const {
    return steps.end_tile(minibatch) - steps.first_tile(minibatch);
  }
  MOK_HOST_DEVICE void row_tile_op(std::int64_t at, std::int64_t step, Op op) {
    const std::int64_t minibatch = steps.minibatch_of_step(step);
    compute.single(at, step, op, minibatch, 0, tiles(minibatch));
  }
  MOK_HOST_DEVICE void dispatch(std::int64_t at, std::int64_t step, Op op) {
    const std::int64_t minibatch = steps.minibatch_of_step(step);
    communication.single(at, step, op, minibatch, 0, tiles(minibatch));
  }
  MOK_HOST_DEVICE void shared_op(std::int64_t at, Op op) {
    compute.single(at, 0, op, 0, 0, ceil_div(tables.header->num_tokens, kRowTile));
  }
  /// Sums that `done` steps complete.
  MOK_HOST_DEVICE void sums(std::int64_t at, std::int64_t done, Op op) {
    const std::int32_t* after = tables.sum_begin[sum_table(pass)];
    const std::int64_t first = done == 0 ? 0 : after[done - 1];
    compute.single(at, done, op, 0, first, after[done] - first);
  }
  /// Replayed in backward: the context holds the first macrobatch only.
  MOK_HOST_DEVICE bool replays(std::int64_t step) const {
    return pass == Pass::backward && steps.macrobatch_of_minibatch(steps.minibatch_of_step(step)) > 0;
  }
  MOK_HOST_DEVICE bool looks_ahead(std::int64_t step) const {
    return step + 1 < steps.count() && !steps.opens_macrobatch(step + 1);
  }

  /// Steps of the longest rank, which every rank's sums wait for; at least one.
  MOK_HOST_DEVICE std::int64_t step_sections() const {
    return max(tables.header->max_steps, std::int64_t{1});
  }

  MOK_HOST_DEVICE void dispatches(std::int64_t step) {
    if (step >= steps.count()) return;
    const std::int64_t at =
        steps.opens_macrobatch(step) ? phase(step, opening) : phase(step - 1, opening_next);
    if (pass != Pass::backward || replays(step)) dispatch(at, step, Op::dispatch_x);
    if (pass == Pass::backward) dispatch(at, step, Op::dispatch_grad);
  }

  MOK_HOST_DEVICE void forward_step(std::int64_t step) {
    if (step < steps.count()) {
      if (steps.opens_macrobatch(step)) row_tile_op(phase(step, opening), step, Op::gate_up);
      if (looks_ahead(step)) row_tile_op(phase(step, opening_next), step + 1, Op::gate_up);
      row_tile_op(phase(step, main), step, Op::down);
    }
    if (step == 0) shared_op(phase(step, shared), Op::shared_down);
    if (step > 0) sums(phase(step, sum), step, Op::weighted_sum);
  }
  MOK_HOST_DEVICE void forward_end() {
    sums(phase(step_sections(), sum), tables.header->max_steps, Op::weighted_sum);
  }

  MOK_HOST_DEVICE void recompute_step(std::int64_t step) {
    if (step >= steps.count()) return;
    row_tile_op(steps.opens_macrobatch(step) ? phase(step, opening) : phase(step - 1, opening_next), step,
                Op::gate_up);
  }

  /// Experts whose weight gradient over the present macrobatch is complete with this minibatch, as [first,
  /// end).
  struct ExpertRange {
    std::int32_t first, end;
  };
  MOK_HOST_DEVICE ExpertRange experts_completed(std::int64_t minibatch) const {
    const std::int64_t begin_tile = steps.first_tile(minibatch);
    const std::int64_t end_tile = steps.end_tile(minibatch);
    ExpertRange range{0, 0};
    // An expert belongs to the minibatch in which its last tile lies; one without rows to that of the tile
    // before.
    if (begin_tile > 0) range.first = first_expert_past(begin_tile);
    range.end = first_expert_past(end_tile);
    const bool closes = end_tile % dims.macrobatch_tiles == 0;
    const bool cut = range.end < dims.local_experts() && tables.first_tile[range.end] < end_tile;
    if (closes && cut) ++range.end;
    return range;
  }
  /// First expert that has a tile at or behind `tile`: the first whose end is past it.
  MOK_HOST_DEVICE std::int32_t first_expert_past(std::int64_t tile) const {
    std::int32_t low = 0;
    std::int32_t high = dims.local_experts();
    while (low < high) {
      const std::int32_t middle = (low + high) / 2;
      if (tables.first_tile[middle + 1] > tile) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  MOK_HOST_DEVICE void backward_step(std::int64_t step) {
    if (step < steps.count()) {
      if (steps.opens_macrobatch(step)) {
        if (replays(step)) row_tile_op(phase(step, opening), step, Op::gate_up);
        row_tile_op(phase(step, opening_next), step, Op::dhidden);
      }
      const bool look = looks_ahead(step);
      if (look && replays(step + 1)) row_tile_op(phase(step, ahead), step + 1, Op::gate_up);
      const std::int64_t minibatch = steps.minibatch_of_step(step);
      const ExpertRange completed = experts_completed(minibatch);
      compute.begin(phase(step, main), step);
      if (look) compute.part(Op::dhidden, minibatch + 1, 0, tiles(minibatch + 1));
      compute.part(Op::dx, minibatch, 0, tiles(minibatch));
      compute.part(Op::weight_grad, minibatch, completed.first, completed.end - completed.first);
      compute.end();
    }
    if (step == 0) shared_op(phase(step, shared), Op::shared_dx);
    if (step > 0) sums(phase(step, sum), step, Op::grad_sum);
  }
  MOK_HOST_DEVICE void backward_end() {
    const std::int64_t end = step_sections();
    if (steps.count() == 0) {  // no rows: gradients are still written, as zeros
      compute.single(phase(end, main), end, Op::weight_grad, 0, 0, dims.local_experts());
    }
    // Fills the wait for the slowest peer before the last sums.
    compute.single(phase(end, shared), end, Op::shared_weight_grad, 0, 0, 1);
    sums(phase(end, sum), tables.header->max_steps, Op::grad_sum);
  }

  /// The prologue, the steps and the end.
  MOK_HOST_DEVICE std::int64_t sections() const { return step_sections() + 2; }
  MOK_HOST_DEVICE void section(std::int64_t index) {
    const std::int64_t step = index - 1;
    if (step < 0) {
      shared_op(0, pass == Pass::backward ? Op::shared_dhidden : Op::shared_gate_up);
    } else if (step < step_sections()) {
      dispatches(step);
      if (pass == Pass::forward) forward_step(step);
      if (pass == Pass::backward) backward_step(step);
      if (pass == Pass::recompute) recompute_step(step);
    } else {
      if (pass == Pass::forward) forward_end();
      if (pass == Pass::backward) backward_end();
    }
  }

  MOK_HOST_DEVICE void build() {
    compute.out = tables.stretches[static_cast<int>(pass)][static_cast<int>(Role::compute)];
    communication.out = tables.stretches[static_cast<int>(pass)][static_cast<int>(Role::communication)];
    for (std::int64_t i = 0; i < sections(); ++i) section(i);
    store(Role::compute, compute);
    store(Role::communication, communication);
  }
  MOK_HOST_DEVICE void store(Role role, const OrderWriter& writer) {
    tables.header->num_stretches[static_cast<int>(pass)][static_cast<int>(role)] = writer.count;
  }
};

}  // namespace detail

/// Fills the stretches of all passes. Needs the row and token tables; of `dims`, nothing about the layer's
/// widths.
MOK_HOST_DEVICE inline void build_order(const Dims& dims, const ScheduleTables& tables) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    detail::OrderBuilder{dims, tables, pass}.build();
  }
}

}  // namespace mok::program
