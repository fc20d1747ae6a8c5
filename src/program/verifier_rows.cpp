// SPDX-License-Identifier: Apache-2.0
#include "program/verifier_rows.h"

#include <algorithm>
#include <string>

namespace mok::program::verifier {

using std::to_string;

namespace {

constexpr bool is_shared_buffer(Buffer buffer) { return buffer >= Buffer::shared_gate; }
constexpr bool is_context_buffer(Buffer buffer) { return buffer <= Buffer::up; }

}  // namespace

RowAccesses::RowAccesses(const Program& program) : program_(program) {
  tiles_.resize(program.dims.size() * static_cast<std::size_t>(Buffer::count));
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    for (int b = 0; b < static_cast<int>(Buffer::count); ++b) {
      const auto buffer = static_cast<Buffer>(b);
      of(rank, buffer).resize(is_shared_buffer(buffer) ? program.token_tiles(rank) : program.tiles(rank));
    }
  }
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    list_accesses(program, program.nodes[n], scratch_);
    for (const bool is_write : {false, true}) {
      for (const Access& a : is_write ? scratch_.writes : scratch_.reads) {
        for (std::int64_t t = a.first_tile; t < a.end_tile; ++t) {
          Tile& tile = of(a.rank, a.buffer)[t];
          (is_write ? tile.writers : tile.readers)
              .push_back({static_cast<std::int32_t>(n), a.first_col, a.end_col});
        }
      }
    }
  }
}

std::int64_t RowAccesses::width(std::int32_t rank, Buffer buffer) const {
  const Dims& dims = program_.dims[rank];
  switch (buffer) {
    case Buffer::x:
    case Buffer::grad_rows:
    case Buffer::pushed:
    case Buffer::shared_out:
      return dims.hidden;
    case Buffer::row_weights:
      return 1;
    case Buffer::weight_partials:
      return dims.partials();
    default:
      return is_shared_buffer(buffer) ? dims.shared_intermediate : dims.intermediate;
  }
}

bool RowAccesses::must_be_written(std::int32_t rank, Buffer buffer, std::int64_t tile) const {
  const Dims& dims = program_.dims[rank];
  if (is_shared_buffer(buffer) && dims.shared_intermediate == 0) return false;
  const bool in_first_macrobatch = tile < dims.macrobatch_tiles;
  switch (program_.pass) {
    case Pass::forward:
      return is_context_buffer(buffer) || buffer == Buffer::hidden || buffer == Buffer::pushed ||
             buffer == Buffer::shared_gate || buffer == Buffer::shared_up ||
             buffer == Buffer::shared_hidden || buffer == Buffer::shared_out;
    case Pass::recompute:
      if (is_context_buffer(buffer)) return in_first_macrobatch;
      return buffer == Buffer::shared_gate || buffer == Buffer::shared_up;
    default:  // backward leaves the context as it is, so that it may run twice
      if (is_context_buffer(buffer)) return !in_first_macrobatch;
      return buffer != Buffer::shared_gate && buffer != Buffer::shared_up;
  }
}

std::int64_t RowAccesses::occupant_before(std::int32_t rank, Buffer buffer, std::int64_t tile) const {
  if (is_shared_buffer(buffer) || buffer == Buffer::pushed || program_.pass == Pass::recompute) return -1;
  const std::int64_t ring = program_.dims[rank].macrobatch_tiles;
  if (program_.pass == Pass::forward) {  // macrobatches run from last to first
    return tile + ring < program_.tiles(rank) ? tile + ring : -1;
  }
  const std::int64_t before = tile - ring;
  return before >= 0 && must_be_written(rank, buffer, before) ? before : -1;
}

void RowAccesses::check_tile(std::int32_t rank, Buffer buffer, std::int64_t tile, Report& report) const {
  std::vector<Touch> writers = of(rank, buffer)[tile].writers;
  const std::string what = std::string(name(buffer)) + " of " +
                           (is_shared_buffer(buffer) ? "token tile " : "row tile ") + to_string(tile) +
                           " of rank " + to_string(rank);
  if (!must_be_written(rank, buffer, tile)) {
    if (writers.empty()) return;
    const Node& node = program_.nodes[writers.front().position];
    report.add(Report::Check::coverage,
               describe(node) + " writes " + what + ", which the pass must leave alone.");
    return;
  }
  std::sort(writers.begin(), writers.end(),
            [](const Touch& a, const Touch& b) { return a.first_col < b.first_col; });
  std::int64_t next = 0;
  for (const Touch& writer : writers) {
    if (writer.first_col < next) {
      report.add(Report::Check::coverage, describe(program_.nodes[writer.position]) + " writes column " +
                                              to_string(writer.first_col) + " of " + what + " again.");
    } else if (writer.first_col > next) {
      report.add(Report::Check::coverage, "Nobody writes columns " + to_string(next) + " to " +
                                              to_string(writer.first_col - 1) + " of " + what + ".");
    }
    next = std::max(next, writer.end_col);
  }
  if (next < width(rank, buffer)) {
    report.add(Report::Check::coverage, "Nobody writes columns " + to_string(next) + " to " +
                                            to_string(width(rank, buffer) - 1) + " of " + what + ".");
  }
}

void RowAccesses::check_coverage(Report& report) const {
  for (std::int32_t rank = 0; rank < program_.ranks(); ++rank) {
    for (int b = 0; b < static_cast<int>(Buffer::count); ++b) {
      const auto buffer = static_cast<Buffer>(b);
      const auto tiles = static_cast<std::int64_t>(of(rank, buffer).size());
      for (std::int64_t tile = 0; tile < tiles; ++tile) check_tile(rank, buffer, tile, report);
    }
  }
}

void RowAccesses::require(std::int32_t position, std::vector<Requirement>& out) {
  list_accesses(program_, program_.nodes[position], scratch_);
  const auto require_all = [&](const std::vector<Touch>& touches, const Access& access,
                               Requirement::Kind kind, std::int64_t tile) {
    for (const Touch& touch : touches) {
      const bool overlaps = touch.first_col < access.end_col && access.first_col < touch.end_col;
      if (overlaps && touch.position != position)
        out.push_back({touch.position, kind, name(access.buffer), tile});
    }
  };
  for (const Access& read : scratch_.reads) {
    for (std::int64_t t = read.first_tile; t < read.end_tile; ++t) {
      require_all(of(read.rank, read.buffer)[t].writers, read, Requirement::Kind::read_after_write, t);
    }
  }
  for (const Access& write : scratch_.writes) {
    const std::int64_t before = occupant_before(write.rank, write.buffer, write.first_tile);
    if (before < 0) continue;
    const Tile& old = of(write.rank, write.buffer)[before];
    require_all(old.readers, write, Requirement::Kind::write_after_read, before);
    require_all(old.writers, write, Requirement::Kind::write_after_write, before);
  }
}

}  // namespace mok::program::verifier
