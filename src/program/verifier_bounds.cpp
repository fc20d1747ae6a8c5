// SPDX-License-Identifier: Apache-2.0
// Whether a single task stays inside its buffers and tables, and covers what its names say.
#include <string>

#include "program/verifier_program.h"

namespace mok::program::verifier {

using std::to_string;

namespace {

struct Bounds {
  const Program& program;
  const Dims& dims;
  const ScheduleTables& tables;
  std::int32_t rank;
  const Task& task;

  std::int64_t intermediate() const {
    return is_shared(task.op) ? dims.shared_intermediate : dims.intermediate;
  }

  bool op_belongs() const {
    switch (task.op) {
      case Op::dispatch_x:
      case Op::gate_up:
        return true;
      case Op::shared_gate_up:
        return program.pass != Pass::backward;
      case Op::down:
      case Op::weighted_sum:
      case Op::shared_down:
        return program.pass == Pass::forward;
      default:
        return program.pass == Pass::backward;
    }
  }

  /// Columns that an op's output has.
  std::int64_t width() const {
    switch (task.op) {
      case Op::gate_up:
      case Op::dhidden:
      case Op::shared_gate_up:
      case Op::shared_dhidden:
        return intermediate();
      case Op::weight_grad:
      case Op::shared_weight_grad:
        return task.matrix == Matrix::down ? intermediate() : dims.hidden;
      default:
        return dims.hidden;
    }
  }

  std::string columns() const {
    if (task.col_begin < 0 || task.col_count <= 0 || task.col_begin + task.col_count > width()) {
      return "has columns outside its output";
    }
    // Partial sums and the tiles of weight gradients are counted in kPartialCols columns.
    if (task.col_begin % kPartialCols != 0 || task.col_count % kPartialCols != 0) return "has odd columns";
    if ((is_dispatch(task.op) || is_sum(task.op)) && task.col_count != dims.hidden) {
      return "does not move whole rows";
    }
    return {};
  }

  std::string waits() const {
    const CounterLayout counters = CounterLayout::make(dims);
    if (task.num_waits < 0 || task.num_waits > Task::kMaxWaits) return "has an impossible number of waits";
    for (int w = 0; w < task.num_waits; ++w) {
      const Wait& wait = task.waits[w];
      if (wait.counter < 0 || wait.count < 1 || wait.counter + wait.count > counters.size()) {
        return "waits for counters outside the set";
      }
      if (counters.kind_of(wait.counter) != counters.kind_of(wait.counter + wait.count - 1)) {
        return "waits for counters of two kinds at once";
      }
    }
    if (task.signal < -1 || task.signal >= counters.size()) return "signals a counter outside the set";
    if (task.step_signal < -1 || task.step_signal >= counters.size()) return "signals a step outside the set";
    if (task.step_signal >= 0 && counters.kind_of(task.step_signal) != Counter::step_done) {
      return "signals something else than a step as its step";
    }
    if (task.peer_steps < 0 || (task.peer_steps > 0 && !is_sum(task.op))) return "has impossible peer_steps";
    return {};
  }

  std::string row_tile() const {
    if (task.row_tile < 0 || task.row_tile >= program.tiles(rank)) return "has no such row tile";
    if (task.expert != tables.tile_expert[task.row_tile]) return "has another expert than its row tile";
    if (task.row_begin != task.row_tile * kRowTile || task.padded_rows != kRowTile ||
        task.row_count != program.rows_in_tile(rank, task.row_tile)) {
      return "has other rows than its row tile";
    }
    if (task.macrobatch != task.row_tile / dims.macrobatch_tiles) return "has a wrong macrobatch";
    if (task.ring_row != task.row_tile % dims.macrobatch_tiles * kRowTile ||
        task.ring_row + kRowTile > dims.ring_rows()) {
      return "has a wrong place in the ring, row " + to_string(task.ring_row);
    }
    return {};
  }

  std::string token_tile() const {
    if (dims.shared_intermediate == 0) return "has no shared expert";
    if (task.row_tile < 0 || task.row_tile >= program.token_tiles(rank)) return "has no such token tile";
    const std::int64_t first = task.row_tile * kRowTile;
    const std::int64_t count = min(kRowTile, program.tokens(rank) - first);
    if (task.row_begin != first || task.row_count != count || task.padded_rows != count ||
        task.ring_row != first) {
      return "has other tokens than its token tile";
    }
    return {};
  }

  std::string token_group() const {
    if (task.row_tile < 0 || task.row_tile >= ceil_div(program.tokens(rank), kSumTokens)) {
      return "has no such group of tokens";
    }
    const std::int64_t first = task.row_tile * kSumTokens;
    const std::int64_t count = min(kSumTokens, program.tokens(rank) - first);
    if (task.row_begin != first || task.row_count != count) return "has other tokens than its group";
    return {};
  }

  std::string weight_tile() const {
    const std::int64_t rows = task.matrix == Matrix::down ? dims.hidden : intermediate();
    if (task.out_row_begin < 0 || task.out_row_count <= 0 || task.out_row_begin + task.out_row_count > rows ||
        task.out_row_begin % kPartialCols != 0 || task.out_row_count % kPartialCols != 0) {
      return "has rows outside its output";
    }
    if (task.padded_rows != task.row_count) return "does not sum over whole tiles";
    if (is_shared(task.op)) {
      const bool all = task.row_begin == 0 && task.row_count == program.tokens(rank);
      return all && dims.shared_intermediate > 0 ? "" : "does not sum over the rank's tokens";
    }
    if (task.expert < 0 || task.expert >= dims.local_experts()) return "has no such expert";
    if (task.row_count == 0) return {};
    if (task.row_begin < 0 || task.row_count < 0 || task.row_begin % kRowTile != 0 ||
        task.row_count % kRowTile != 0 || task.row_begin + task.row_count > program.tiles(rank) * kRowTile) {
      return "sums over rows that are no whole row tiles";
    }
    if (task.ring_row != task.row_begin % (dims.macrobatch_tiles * kRowTile) ||
        task.ring_row + task.row_count > dims.ring_rows()) {
      return "has a wrong place in the ring, row " + to_string(task.ring_row);
    }
    return {};
  }

  std::string place() const {
    if (is_weight_grad(task.op)) return weight_tile();
    if (is_sum(task.op)) return token_group();
    return is_shared(task.op) ? token_tile() : row_tile();
  }
};

}  // namespace

std::string bounds_complaint(const Program& program, std::int32_t rank, Role role, const Task& task) {
  if (task.op >= Op::count) return "is no task";
  const Bounds bounds{program, program.dims[rank], program.tables[rank], rank, task};
  if (!bounds.op_belongs()) return std::string("does not belong to the ") + name(program.pass) + " pass";
  if (is_dispatch(task.op) != (role == Role::communication)) return "is in the list of the wrong role";
  for (const std::string& complaint : {bounds.columns(), bounds.waits(), bounds.place()}) {
    if (!complaint.empty()) return complaint;
  }
  return {};
}

}  // namespace mok::program::verifier
