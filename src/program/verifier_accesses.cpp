// SPDX-License-Identifier: Apache-2.0
// The data flow of each op, written down once more: independent of the waits in task.h, which it is to judge.
#include <algorithm>
#include <iterator>
#include <tuple>

#include "program/verifier_rows.h"

namespace mok::program::verifier {

const char* name(Buffer buffer) {
  static constexpr const char* kNames[] = {"x",
                                           "gate",
                                           "up",
                                           "hidden",
                                           "grad_rows",
                                           "row_weights",
                                           "d_gate",
                                           "d_up",
                                           "weight_partials",
                                           "slots",
                                           "shared_gate",
                                           "shared_up",
                                           "shared_hidden",
                                           "shared_d_gate",
                                           "shared_d_up",
                                           "shared_out"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Buffer::count));
  return kNames[static_cast<int>(buffer)];
}

namespace {

/// Lists the accesses of one task.
struct Lister {
  const Program& program;
  const Dims& dims;
  const Node& node;
  const Task& task;
  Accesses& out;
  bool forward = program.pass == Pass::forward;
  bool recompute = program.pass == Pass::recompute;

  std::int64_t end_col() const { return task.col_begin + task.col_count; }

  void add(std::vector<Access>& list, Buffer buffer, std::int64_t first_col, std::int64_t end_col) const {
    list.push_back({buffer, node.rank, task.row_tile, task.row_tile + 1, first_col, end_col});
  }
  void read_all(Buffer buffer, std::int64_t width) const { add(out.reads, buffer, 0, width); }
  void read_own(Buffer buffer) const { add(out.reads, buffer, task.col_begin, end_col()); }
  void write_all(Buffer buffer, std::int64_t width) const { add(out.writes, buffer, 0, width); }
  void write_own(Buffer buffer) const { add(out.writes, buffer, task.col_begin, end_col()); }

  void routed() const {
    switch (task.op) {
      case Op::dispatch_x:
        return write_all(Buffer::x, dims.hidden);
      case Op::dispatch_grad:
        write_all(Buffer::grad_rows, dims.hidden);
        return write_all(Buffer::row_weights, 1);
      case Op::gate_up:
        read_all(Buffer::x, dims.hidden);
        write_own(Buffer::gate);
        write_own(Buffer::up);
        if (forward) write_own(Buffer::hidden);
        return;
      case Op::down:
        read_all(Buffer::hidden, dims.intermediate);
        return write_own(Buffer::pushed);
      case Op::dhidden:
        read_all(Buffer::grad_rows, dims.hidden);
        read_all(Buffer::row_weights, 1);
        read_own(Buffer::gate);
        read_own(Buffer::up);
        write_own(Buffer::hidden);
        write_own(Buffer::d_gate);
        write_own(Buffer::d_up);
        return add(out.writes, Buffer::weight_partials, task.col_begin / kPartialCols,
                   end_col() / kPartialCols);
      default:  // dx
        read_all(Buffer::d_gate, dims.intermediate);
        read_all(Buffer::d_up, dims.intermediate);
        if (task.col_begin == 0) read_all(Buffer::weight_partials, dims.partials());
        return write_own(Buffer::pushed);
    }
  }

  void shared() const {
    switch (task.op) {
      case Op::shared_gate_up:
        write_own(Buffer::shared_gate);
        write_own(Buffer::shared_up);
        if (!recompute) write_own(Buffer::shared_hidden);
        return;
      case Op::shared_down:
        read_all(Buffer::shared_hidden, dims.shared_intermediate);
        return write_own(Buffer::shared_out);
      case Op::shared_dhidden:
        write_own(Buffer::shared_hidden);
        write_own(Buffer::shared_d_gate);
        return write_own(Buffer::shared_d_up);
      default:  // shared_dx
        read_all(Buffer::shared_d_gate, dims.shared_intermediate);
        read_all(Buffer::shared_d_up, dims.shared_intermediate);
        return write_own(Buffer::shared_out);
    }
  }

  /// dWg = dG^T x, dWu = dU^T x, dWd = dO^T Hw: the rows of the output are columns of the first factor.
  void weight_grad() const {
    const bool is_shared_op = task.op == Op::shared_weight_grad;
    const std::int64_t first = is_shared_op ? 0 : task.row_begin / kRowTile;
    const std::int64_t end =
        is_shared_op ? program.token_tiles(node.rank) : first + task.row_count / kRowTile;
    const std::int64_t end_row = task.out_row_begin + task.out_row_count;
    const auto read = [&](Buffer buffer, std::int64_t first_col, std::int64_t last_col) {
      out.reads.push_back({buffer, node.rank, first, end, first_col, last_col});
    };
    if (task.matrix != Matrix::down) {
      const bool gate = task.matrix == Matrix::gate;
      if (is_shared_op)
        return read(gate ? Buffer::shared_d_gate : Buffer::shared_d_up, task.out_row_begin, end_row);
      read(gate ? Buffer::d_gate : Buffer::d_up, task.out_row_begin, end_row);
      return read(Buffer::x, task.col_begin, end_col());
    }
    if (is_shared_op) return read(Buffer::shared_hidden, task.col_begin, end_col());
    read(Buffer::grad_rows, task.out_row_begin, end_row);
    read(Buffer::hidden, task.col_begin, end_col());
  }

  /// A sum reads the slots of its tokens' routes, wherever their rows stand, and the shared expert's output.
  void sum() const {
    const std::int32_t* order = program.tables[node.rank].token_order[sum_table(program.pass)];
    for (std::int64_t i = task.row_begin; i < task.row_begin + task.row_count; ++i) {
      const std::int64_t token = order[i];
      for (std::int64_t slot = token * dims.topk; slot < (token + 1) * dims.topk; ++slot) {
        const RowAt at = program.row_of_slot[node.rank][slot];
        if (at.rank < 0) continue;
        const std::int64_t tile = at.row / kRowTile;
        out.reads.push_back({Buffer::pushed, at.rank, tile, tile + 1, 0, program.dims[at.rank].hidden});
      }
      if (dims.shared_intermediate == 0) continue;
      const std::int64_t tile = token / kRowTile;
      out.reads.push_back({Buffer::shared_out, node.rank, tile, tile + 1, 0, dims.hidden});
    }
    const auto key = [](const Access& a) { return std::tie(a.buffer, a.rank, a.first_tile); };
    const auto less = [&](const Access& a, const Access& b) { return key(a) < key(b); };
    const auto same = [&](const Access& a, const Access& b) { return key(a) == key(b); };
    std::sort(out.reads.begin(), out.reads.end(), less);
    out.reads.erase(std::unique(out.reads.begin(), out.reads.end(), same), out.reads.end());
  }
};

}  // namespace

void list_accesses(const Program& program, const Node& node, Accesses& out) {
  out.reads.clear();
  out.writes.clear();
  const Lister lister{program, program.dims[node.rank], node, node.task, out};
  if (is_weight_grad(node.task.op)) return lister.weight_grad();
  if (is_sum(node.task.op)) return lister.sum();
  return is_shared(node.task.op) ? lister.shared() : lister.routed();
}

}  // namespace mok::program::verifier
