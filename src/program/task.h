// SPDX-License-Identifier: Apache-2.0
// From a task index to what to compute, what to wait for and what to signal: pure functions of a rank's
// tables.
//
// The GPU kernel, the CPU executor, the staged runner and the timeline all call decode_task.
#pragma once

#include <cstdint>

#include "program/counters.h"
#include "program/dims.h"
#include "program/order.h"
#include "program/steps.h"
#include "program/tables.h"

namespace mok::program {

/// Every counter of [counter, counter + count) must have reached `at_least`. No task waits for less than all
/// signals that a counter ever gets: so a wait orders the task behind all who signal it.
struct Wait {
  std::int64_t counter = 0;
  std::int64_t count = 0;
  std::uint32_t at_least = 0;
};

/// One tile of one op. Rows are rows of the rank's expert-sorted order, or tokens for shared ops and sums;
/// row_count may be less than a full tile's when only the first rows are real.
struct Task {
  static constexpr int kMaxWaits = 4;

  Op op = Op::count;
  Matrix matrix = Matrix::gate;  ///< weight_grad: which weight
  std::int32_t expert = -1;      ///< local expert; -1 for shared ops and sums
  std::int64_t row_tile = 0;     ///< index of the row tile; sums: of the group of tokens
  std::int64_t row_begin = 0;    ///< first row; weight_grad: first row of the contraction
  std::int64_t row_count = 0;  ///< real rows; weight_grad: rows of the contraction, padding between included
  std::int64_t padded_rows = 0;    ///< rows that the task owns, padding included
  std::int64_t ring_row = 0;       ///< row_begin in the ring buffers
  std::int64_t out_row_begin = 0;  ///< weight_grad: first row of the output tile
  std::int64_t out_row_count = 0;
  std::int64_t col_begin = 0;  ///< first column of the output tile
  std::int64_t col_count = 0;
  std::int64_t macrobatch = 0;
  std::int64_t step = 0;
  bool opens_sum = true;   ///< weight_grad: no earlier segment of this expert; starts from zero, not a carry
  bool closes_sum = true;  ///< weight_grad: no later segment; rounds and writes the gradient
  std::int64_t peer_steps = 0;  ///< sums: steps that each rank must have pushed (all it has, if it has fewer)
  Wait waits[kMaxWaits];
  int num_waits = 0;
  std::int64_t signal = -1;       ///< counter to add one to; -1 = none
  std::int64_t step_signal = -1;  ///< step_done counter to add one to, for ops that push to slots; -1 = none

  MOK_HOST_DEVICE constexpr void wait_for(std::int64_t counter, std::int64_t count, std::int64_t at_least) {
    waits[num_waits++] = {counter, count, static_cast<std::uint32_t>(at_least)};
  }
};

namespace detail {

/// Row and column of the i-th tile, rows fastest inside groups of kSwizzleTiles rows.
struct TileAt {
  std::int64_t row, col;
};
MOK_HOST_DEVICE constexpr TileAt swizzle(std::int64_t i, std::int64_t rows, std::int64_t cols) {
  const std::int64_t first = quotient(i, kSwizzleTiles * cols) * kSwizzleTiles;
  const std::int64_t in_group = min(kSwizzleTiles, rows - first);
  const std::int64_t rest = i - first * cols;
  const std::int64_t col = quotient(rest, in_group);
  return {first + rest - col * in_group, col};
}

/// Which part the i-th task of a stretch belongs to, and its index there. Of two lists of a and b tasks,
/// i*a/(a+b) tasks of the first stand before place i; three lists are mixed as one and the mix of the rest.
struct PartAt {
  int part;
  std::int64_t index;
};
MOK_HOST_DEVICE constexpr PartAt pick_part(const Stretch& stretch, const TasksPerUnit& tasks,
                                           std::int64_t i) {
  if (stretch.num_parts == 1) return {0, i};
  std::int64_t total = tasks.in(stretch);
  for (int part = 0; part + 1 < stretch.num_parts; ++part) {
    const std::int64_t count = tasks.in(stretch.parts[part]);
    const std::int64_t before = i * count / total;
    if ((i + 1) * count / total > before) return {part, before};
    i -= before;
    total -= count;
  }
  return {stretch.num_parts - 1, i};
}

/// Decodes tasks of one rank and pass.
struct TaskDecoder {
  const Dims& dims;
  const ScheduleTables& tables;
  Pass pass;
  CounterLayout counters = CounterLayout::make(dims);
  TasksPerUnit tasks_per_unit = TasksPerUnit::make(dims);
  Steps steps = Steps::make(dims, tables.header->num_tiles, pass);

  MOK_HOST_DEVICE void decode(Role role, std::int64_t index, Task& task) const {
    const int p = static_cast<int>(pass);
    const int r = static_cast<int>(role);
    const Stretch* stretches = tables.stretches[p][r];
    std::int32_t low = 0;
    std::int32_t high = tables.header->num_stretches[p][r] - 1;
    while (low < high) {  // last stretch that begins at or before index
      const std::int32_t middle = (low + high + 1) / 2;
      if (tasks_per_unit.before(stretches[middle]) <= index) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    decode_in(stretches[low], index - tasks_per_unit.before(stretches[low]), task);
  }

  /// The i-th task of a stretch.
  MOK_HOST_DEVICE void decode_in(const Stretch& stretch, std::int64_t i, Task& task) const {
    const PartAt at = pick_part(stretch, tasks_per_unit, i);
    const Part& part = stretch.parts[at.part];
    task = Task{};
    task.op = part.op;
    task.step = stretch.step;
    switch (part.op) {
      case Op::weight_grad:
        weight_grad(task, part, at.index);
        break;
      case Op::shared_weight_grad:
        shared_weight_grad(task, at.index);
        break;
      case Op::weighted_sum:
      case Op::grad_sum:
        sum(task, part.first + at.index);
        break;
      default:
        if (is_shared(part.op)) {
          shared_tile(task, at.index);
        } else {
          routed_tile(task, part, at.index);
        }
    }
  }

 private:
  MOK_HOST_DEVICE void columns(Task& task, std::int64_t col_tile, std::int64_t width,
                               std::int64_t cols) const {
    task.col_begin = col_tile * width;
    task.col_count = min(width, cols - task.col_begin);
  }

  MOK_HOST_DEVICE void op_columns(Task& task, std::int64_t col_tile) const {
    const std::int64_t intermediate = is_shared(task.op) ? dims.shared_intermediate : dims.intermediate;
    switch (task.op) {
      case Op::gate_up:
      case Op::shared_gate_up:
        return columns(task, col_tile, dims.tile.gate_up_cols, intermediate);
      case Op::dhidden:
      case Op::shared_dhidden:
        return columns(task, col_tile, dims.tile.dhidden_cols, intermediate);
      case Op::down:
      case Op::shared_down:
        return columns(task, col_tile, dims.tile.down_cols, dims.hidden);
      case Op::dx:
      case Op::shared_dx:
        return columns(task, col_tile, dims.tile.dx_cols, dims.hidden);
      default:
        return columns(task, 0, dims.hidden, dims.hidden);
    }
  }

  MOK_HOST_DEVICE std::int64_t full(Op op) const { return tasks_per_unit.of[static_cast<int>(op)]; }

  /// The tile that held this tile's ring slot before it, or -1. `held_from` is the first macrobatch that the
  /// buffer in question ever holds: the replay buffers do not hold macrobatch 0.
  MOK_HOST_DEVICE std::int64_t tile_before(std::int64_t tile, std::int64_t held_from) const {
    if (pass == Pass::forward) {
      const std::int64_t before = tile + dims.macrobatch_tiles;
      return before < tables.header->num_tiles ? before : -1;
    }
    const std::int64_t before = tile - dims.macrobatch_tiles;
    return before >= held_from * dims.macrobatch_tiles ? before : -1;
  }

  MOK_HOST_DEVICE void wait_for_tile(Task& task, Counter counter, std::int64_t tile,
                                     std::int64_t at_least) const {
    task.wait_for(counters.at(counter, tile), 1, at_least);
  }

  /// All weight gradients over the rows of a tile are done: the last readers of x, grad_output, dG, dU and Hw
  /// there.
  MOK_HOST_DEVICE void wait_for_segment(Task& task, std::int64_t expert, std::int64_t macrobatch) const {
    task.wait_for(counters.at(Counter::weight_grad_done, segment_index(expert, macrobatch)), 1,
                  WeightGradTiles::make(dims, false).per_expert());
  }
  MOK_HOST_DEVICE void wait_for_segment_of(Task& task, std::int64_t tile) const {
    wait_for_segment(task, tables.tile_expert[tile], tile / dims.macrobatch_tiles);
  }

  MOK_HOST_DEVICE void routed_tile(Task& task, const Part& part, std::int64_t i) const {
    const std::int64_t first = steps.first_tile(part.minibatch);
    const std::int64_t tiles = steps.end_tile(part.minibatch) - first;
    const TileAt at = swizzle(i, tiles, full(task.op));
    // Ranks start at different places, so that they do not all pull from, and push to, the same peer at once.
    const std::int64_t rotation = quotient(dims.rank * tiles, dims.ranks);
    const std::int64_t tile = first + remainder(at.row + rotation, tiles);
    task.expert = tables.tile_expert[tile];
    task.row_tile = tile;
    task.row_begin = tile * kRowTile;
    task.padded_rows = kRowTile;
    const std::int64_t in_expert = (tile - tables.first_tile[task.expert]) * kRowTile;
    task.row_count = min(kRowTile, tables.rows_per_expert[task.expert] - in_expert);
    task.macrobatch = quotient(tile, dims.macrobatch_tiles);
    task.ring_row = remainder(tile, dims.macrobatch_tiles) * kRowTile;
    op_columns(task, at.col);
    order_routed(task);
  }

  /// Waits and signals of the ops on row tiles.
  MOK_HOST_DEVICE void order_routed(Task& task) const {
    const std::int64_t tile = task.row_tile;
    switch (task.op) {
      case Op::dispatch_x: {
        const std::int64_t before = tile_before(tile, 1);
        if (before >= 0 && pass == Pass::forward) {
          wait_for_tile(task, Counter::gate_up_done, before, full(Op::gate_up));
        } else if (before >= 0) {
          wait_for_segment_of(task, before);
        }
        task.signal = counters.at(Counter::x_arrived, tile);
        break;
      }
      case Op::dispatch_grad: {
        const std::int64_t before = tile_before(tile, 0);
        if (before >= 0) wait_for_segment_of(task, before);
        task.signal = counters.at(Counter::grad_arrived, tile);
        break;
      }
      case Op::gate_up: {
        wait_for_tile(task, Counter::x_arrived, tile, 1);
        // In forward the slot's old Hd must have been read; in backward dispatch_x has waited for the last
        // reader.
        const std::int64_t before = pass == Pass::forward ? tile_before(tile, 0) : -1;
        if (before >= 0) wait_for_tile(task, Counter::down_done, before, full(Op::down));
        task.signal = counters.at(Counter::gate_up_done, tile);
        break;
      }
      case Op::down:
        wait_for_tile(task, Counter::gate_up_done, tile, full(Op::gate_up));
        task.signal = counters.at(Counter::down_done, tile);
        task.step_signal = counters.at(Counter::step_done, task.step);
        break;
      case Op::dhidden: {
        wait_for_tile(task, Counter::grad_arrived, tile, 1);
        if (task.macrobatch > 0) wait_for_tile(task, Counter::gate_up_done, tile, full(Op::gate_up));
        // dx reads dG, dU and the partials; the weight gradients' reads are behind grad_arrived already.
        const std::int64_t before = tile_before(tile, 0);
        if (before >= 0) wait_for_tile(task, Counter::dx_done, before, full(Op::dx));
        task.signal = counters.at(Counter::dhidden_done, tile);
        break;
      }
      default:  // dx
        wait_for_tile(task, Counter::dhidden_done, tile, full(Op::dhidden));
        task.signal = counters.at(Counter::dx_done, tile);
        task.step_signal = counters.at(Counter::step_done, task.step);
        break;
    }
  }

  MOK_HOST_DEVICE void shared_tile(Task& task, std::int64_t i) const {
    const std::int64_t tokens = tables.header->num_tokens;
    const TileAt at = swizzle(i, ceil_div(tokens, kRowTile), full(task.op));
    task.row_tile = at.row;
    task.row_begin = at.row * kRowTile;
    task.ring_row = task.row_begin;
    task.row_count = min(kRowTile, tokens - task.row_begin);
    task.padded_rows = task.row_count;
    op_columns(task, at.col);
    switch (task.op) {
      case Op::shared_gate_up:
        task.signal = counters.at(Counter::shared_gate_up_done, at.row);
        break;
      case Op::shared_dhidden:
        task.signal = counters.at(Counter::shared_dhidden_done, at.row);
        break;
      default: {
        const bool is_down = task.op == Op::shared_down;
        const Counter input = is_down ? Counter::shared_gate_up_done : Counter::shared_dhidden_done;
        wait_for_tile(task, input, at.row, full(is_down ? Op::shared_gate_up : Op::shared_dhidden));
        task.signal = counters.at(Counter::shared_out_done, at.row);
      }
    }
  }

  /// The output tile of a weight gradient.
  MOK_HOST_DEVICE void weight_tile(Task& task, std::int64_t i, bool shared) const {
    const WeightGradTiles tiles = WeightGradTiles::make(dims, shared);
    const std::int64_t intermediate = shared ? dims.shared_intermediate : dims.intermediate;
    int matrix = 0;
    while (i >= tiles.per_matrix(static_cast<Matrix>(matrix)))
      i -= tiles.per_matrix(static_cast<Matrix>(matrix++));
    task.matrix = static_cast<Matrix>(matrix);
    const bool is_down = task.matrix == Matrix::down;
    const TileAt at =
        is_down ? swizzle(i, tiles.down_rows, tiles.down_cols) : swizzle(i, tiles.gate_rows, tiles.gate_cols);
    task.out_row_begin = at.row * dims.tile.weight_grad_rows;
    task.out_row_count =
        min(dims.tile.weight_grad_rows, (is_down ? dims.hidden : intermediate) - task.out_row_begin);
    columns(task, at.col, dims.tile.weight_grad_cols, is_down ? intermediate : dims.hidden);
  }

  MOK_HOST_DEVICE void weight_grad(Task& task, const Part& part, std::int64_t i) const {
    const std::int64_t per_expert = WeightGradTiles::make(dims, false).per_expert();
    task.expert = static_cast<std::int32_t>(part.first + i / per_expert);
    weight_tile(task, i % per_expert, false);
    const std::int64_t first = tables.first_tile[task.expert];
    const std::int64_t end = tables.first_tile[task.expert + 1];
    if (first == end) return;  // no rows: zeros, and nobody waits
    task.macrobatch = part.minibatch / steps.per_macrobatch;
    const std::int64_t cut_begin = task.macrobatch * dims.macrobatch_tiles;
    const std::int64_t cut_end = cut_begin + dims.macrobatch_tiles;
    const std::int64_t from = max(first, cut_begin);
    const std::int64_t to = min(end, cut_end);
    task.opens_sum = from == first;
    task.closes_sum = to == end;
    task.row_tile = from;
    task.row_begin = from * kRowTile;
    task.row_count = (to - from) * kRowTile;
    task.padded_rows = task.row_count;
    task.ring_row = from % dims.macrobatch_tiles * kRowTile;
    task.wait_for(counters.at(Counter::dhidden_done, from), to - from, full(Op::dhidden));
    if (!task.opens_sum) wait_for_segment(task, task.expert, task.macrobatch - 1);
    // Two carry buffers are used in turn: the one written here was last read by the expert that began the
    // macrobatch before this one.
    if (!task.closes_sum && task.macrobatch >= 2) {
      wait_for_segment_of(task, (task.macrobatch - 1) * dims.macrobatch_tiles);
    }
    task.signal = counters.at(Counter::weight_grad_done, segment_index(task.expert, task.macrobatch));
  }

  MOK_HOST_DEVICE void shared_weight_grad(Task& task, std::int64_t i) const {
    weight_tile(task, i, true);
    task.row_count = tables.header->num_tokens;
    task.padded_rows = task.row_count;
    const std::int64_t token_tiles = ceil_div(task.row_count, kRowTile);
    if (token_tiles > 0) {
      task.wait_for(counters.at(Counter::shared_dhidden_done, 0), token_tiles, full(Op::shared_dhidden));
    }
  }

  MOK_HOST_DEVICE void sum(Task& task, std::int64_t group) const {
    task.row_tile = group;
    task.row_begin = group * kSumTokens;
    task.row_count = min(kSumTokens, tables.header->num_tokens - task.row_begin);
    task.padded_rows = task.row_count;
    op_columns(task, 0);
    task.peer_steps = task.step;
    if (dims.shared_intermediate > 0) {
      const Op op = pass == Pass::backward ? Op::shared_dx : Op::shared_down;
      task.wait_for(counters.at(Counter::shared_out_done, 0), ceil_div(tables.header->num_tokens, kRowTile),
                    full(op));
    }
  }
};

}  // namespace detail

/// The task at `index` of a role's order, 0 <= index < num_tasks(dims, tables, pass, role).
MOK_HOST_DEVICE inline Task decode_task(const Dims& dims, const ScheduleTables& tables, Pass pass, Role role,
                                        std::int64_t index) {
  Task task;
  detail::TaskDecoder{dims, tables, pass}.decode(role, index, task);
  return task;
}

/// Decodes tasks in ascending order, as a worker claims them: it stays in a stretch until the tasks leave it.
class TaskCursor {
 public:
  MOK_HOST_DEVICE TaskCursor(const Dims& dims, const ScheduleTables& tables, Pass pass, Role role)
      : decoder_{dims, tables, pass},
        stretch_(tables.stretches[static_cast<int>(pass)][static_cast<int>(role)]) {
    if (tables.header->num_stretches[static_cast<int>(pass)][static_cast<int>(role)] > 0) {
      end_ = decoder_.tasks_per_unit.in(*stretch_);
    }
  }

  /// \param index of a task that exists, not before the one asked for last.
  /// \param task written; a GPU keeps it in shared memory, it is too large for registers.
  MOK_HOST_DEVICE void decode(std::int64_t index, Task& task) {
    while (index >= end_) {
      begin_ = end_;
      end_ += decoder_.tasks_per_unit.in(*++stretch_);
    }
    decoder_.decode_in(*stretch_, index - begin_, task);
  }

 private:
  detail::TaskDecoder decoder_;
  const Stretch* stretch_;
  std::int64_t begin_ = 0;  ///< first task of the stretch
  std::int64_t end_ = 0;
};

/// Tasks that push to slots in a step: what step_done reaches when the step is complete.
MOK_HOST_DEVICE inline std::int64_t pushes_in_step(const Dims& dims, const ScheduleTables& tables, Pass pass,
                                                   std::int64_t step) {
  const Steps steps = Steps::make(dims, tables.header->num_tiles, pass);
  const std::int64_t minibatch = steps.minibatch_of_step(step);
  const Op op = pass == Pass::backward ? Op::dx : Op::down;
  return (steps.end_tile(minibatch) - steps.first_tile(minibatch)) * col_tiles(dims, op);
}

}  // namespace mok::program
