// SPDX-License-Identifier: Apache-2.0
#include "program/verifier_weights.h"

#include <algorithm>
#include <string>

namespace mok::program::verifier {

using std::to_string;

namespace {

constexpr const char* kMatrixNames[] = {"gate", "up", "down"};

/// Calls visit(cell) for each square of a task's output tile, until it returns false.
template <class Visitor>
void for_each_cell(const Task& task, std::int64_t cell_cols, const Visitor& visit) {
  for (std::int64_t row = task.out_row_begin; row < task.out_row_begin + task.out_row_count;
       row += kPartialCols) {
    for (std::int64_t col = task.col_begin; col < task.col_begin + task.col_count; col += kPartialCols) {
      if (!visit(row / kPartialCols * cell_cols + col / kPartialCols)) return;
    }
  }
}

}  // namespace

WeightGradients::WeightGradients(const Program& program) : program_(program) {
  if (program.pass != Pass::backward) return;
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) add_segments(rank);
}

void WeightGradients::add_segments(std::int32_t rank) {
  const Dims& dims = program_.dims[rank];
  const std::int64_t ring = dims.macrobatch_tiles;
  if (dims.shared_intermediate > 0) add_segment({rank, -1, 0}, {});
  for (std::int32_t e = 0; e < dims.local_experts(); ++e) {
    const std::int64_t first = program_.tables[rank].first_tile[e];
    const std::int64_t end = program_.tables[rank].first_tile[e + 1];
    if (first == end) add_segment({rank, e, 0}, {});
    for (std::int64_t tile = first; tile < end;) {
      Segment segment;
      segment.first_tile = tile;
      segment.end_tile = min(end, (tile / ring + 1) * ring);
      segment.opens = tile == first;
      segment.closes = segment.end_tile == end;
      add_segment({rank, e, tile / ring}, segment);
      tile = segment.end_tile;
    }
  }
}

void WeightGradients::add_segment(const Key& key, const Segment& segment) {
  const Dims& dims = program_.dims[key.rank];
  const std::int64_t intermediate = key.expert < 0 ? dims.shared_intermediate : dims.intermediate;
  Segment& added = segments_[key] = segment;
  for (auto& cells : added.cells) {
    cells.assign((intermediate / kPartialCols) * (dims.hidden / kPartialCols), -1);
  }
}

std::int64_t WeightGradients::cell_cols(const Key& key, Matrix matrix) const {
  const Dims& dims = program_.dims[key.rank];
  const std::int64_t intermediate = key.expert < 0 ? dims.shared_intermediate : dims.intermediate;
  return (matrix == Matrix::down ? intermediate : dims.hidden) / kPartialCols;
}

WeightGradients::Key WeightGradients::key_of(const Node& node) const {
  if (node.task.op == Op::shared_weight_grad) return {node.rank, -1, 0};
  return {node.rank, node.task.expert, node.task.macrobatch};
}

void WeightGradients::place(std::int32_t position, Report& report) {
  const Node& node = program_.nodes[position];
  const Task& task = node.task;
  const Key key = key_of(node);
  const auto found = segments_.find(key);
  if (found == segments_.end()) {
    report.add(Report::Check::segments, describe(node) + " belongs to no segment of its expert.");
    return;
  }
  Segment& segment = found->second;
  if (key.expert >= 0 && (task.row_begin != segment.first_tile * kRowTile ||
                          task.row_count != (segment.end_tile - segment.first_tile) * kRowTile)) {
    report.add(Report::Check::segments,
               describe(node) + " sums over row tiles " + to_string(task.row_begin / kRowTile) + " to " +
                   to_string((task.row_begin + task.row_count) / kRowTile - 1) + ", but its segment is " +
                   to_string(segment.first_tile) + " to " + to_string(segment.end_tile - 1) + ".");
  }
  if (task.opens_sum != segment.opens || task.closes_sum != segment.closes) {
    report.add(Report::Check::segments,
               describe(node) + " is wrong about being its expert's first or last segment.");
  }
  std::vector<std::int32_t>& cells = segment.cells[static_cast<int>(task.matrix)];
  for_each_cell(task, cell_cols(key, task.matrix), [&](std::int64_t cell) {
    const bool again = cells[cell] >= 0;
    if (again) {
      report.add(Report::Check::coverage, describe(node) + " writes elements that " +
                                              describe(program_.nodes[cells[cell]]) + " writes too.");
    }
    cells[cell] = position;
    return !again;
  });
}

void WeightGradients::check(Report& report) {
  for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
    if (is_weight_grad(program_.nodes[n].task.op)) place(static_cast<std::int32_t>(n), report);
  }
  for (const auto& [key, segment] : segments_) {
    for (int m = 0; m < kNumMatrices; ++m) {
      const auto missing = std::count(segment.cells[m].begin(), segment.cells[m].end(), -1);
      if (missing == 0) continue;
      const std::string expert =
          key.expert < 0 ? "the shared expert" : "local expert " + to_string(key.expert);
      report.add(Report::Check::coverage, "Nobody sums " + to_string(missing * kPartialCols * kPartialCols) +
                                              " elements of the gradient of " + kMatrixNames[m] + " of " +
                                              expert + " of rank " + to_string(key.rank) +
                                              " over macrobatch " + to_string(key.macrobatch) + ".");
    }
  }
}

std::int32_t WeightGradients::carried_expert(std::int32_t rank, std::int64_t macrobatch) const {
  const std::int64_t boundary = (macrobatch + 1) * program_.dims[rank].macrobatch_tiles;
  if (macrobatch < 0 || boundary >= program_.tiles(rank)) return -1;
  const std::int32_t* expert = program_.tables[rank].tile_expert;
  return expert[boundary - 1] == expert[boundary] ? expert[boundary] : -1;
}

void WeightGradients::require_cells(const Key& key, std::int32_t position, Requirement::Kind kind,
                                    std::vector<Requirement>& out) const {
  const auto found = segments_.find(key);
  if (found == segments_.end()) return;
  const Task& task = program_.nodes[position].task;
  const std::vector<std::int32_t>& cells = found->second.cells[static_cast<int>(task.matrix)];
  for_each_cell(task, cell_cols(key, task.matrix), [&](std::int64_t cell) {
    const std::int32_t earlier = cells[cell];
    const bool repeated = !out.empty() && out.back().earlier == earlier;
    if (earlier >= 0 && earlier != position && !repeated)
      out.push_back({earlier, kind, "carry", key.macrobatch % 2});
    return true;
  });
}

/// Boundary m uses buffer m % 2, so a sum carried over it overwrites the one carried over the boundary that
/// last used the buffer, which the segment behind that boundary has read.
void WeightGradients::require(std::int32_t position, std::vector<Requirement>& out) const {
  const Node& node = program_.nodes[position];
  if (node.task.op != Op::weight_grad) return;
  const Key key = key_of(node);
  if (!node.task.opens_sum) {
    require_cells({key.rank, key.expert, key.macrobatch - 1}, position, Requirement::Kind::read_after_write,
                  out);
  }
  if (node.task.closes_sum) return;
  for (std::int64_t m = key.macrobatch - 2; m >= 0; m -= 2) {
    const std::int32_t carried = carried_expert(key.rank, m);
    if (carried < 0) continue;
    require_cells({key.rank, carried, m + 1}, position, Requirement::Kind::write_after_read, out);
    require_cells({key.rank, carried, m}, position, Requirement::Kind::write_after_write, out);
    return;
  }
}

}  // namespace mok::program::verifier
