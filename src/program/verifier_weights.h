// SPDX-License-Identifier: Apache-2.0
// Weight gradients: which segments an expert's sum runs over, which tasks write which elements, and the
// buffers that carry a sum over a macrobatch boundary.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "program/verifier_program.h"
#include "program/verifier_rows.h"

namespace mok::program::verifier {

class WeightGradients {
 public:
  explicit WeightGradients(const Program& program);

  /// The segments of each expert run over its row tiles once, are cut at macrobatch boundaries, and each
  /// writes every element of each weight's gradient, or of the carry, once; an expert without rows has one
  /// segment of zeros.
  void check(Report& report);
  /// Appends what must happen before a task on behalf of the carry buffers.
  void require(std::int32_t position, std::vector<Requirement>& out) const;

 private:
  /// Rows of a macrobatch that belong to an expert. `cells[matrix]` tells who writes each square of
  /// kPartialCols rows and columns: a position, -1 = nobody.
  struct Segment {
    std::int64_t first_tile = 0, end_tile = 0;
    bool opens = true, closes = true;
    std::vector<std::int32_t> cells[kNumMatrices];
  };
  /// (rank, local expert or -1 for the shared one, macrobatch).
  struct Key {
    std::int32_t rank, expert;
    std::int64_t macrobatch;
    auto operator<=>(const Key&) const = default;
  };

  void add_segments(std::int32_t rank);
  void add_segment(const Key& key, const Segment& segment);
  void place(std::int32_t position, Report& report);
  Key key_of(const Node& node) const;
  std::int64_t cell_cols(const Key& key, Matrix matrix) const;
  /// Local expert with rows on both sides of the boundary behind a macrobatch, or -1.
  std::int32_t carried_expert(std::int32_t rank, std::int64_t macrobatch) const;
  void require_cells(const Key& key, std::int32_t position, Requirement::Kind kind,
                     std::vector<Requirement>& out) const;

  const Program& program_;
  std::map<Key, Segment> segments_;
};

}  // namespace mok::program::verifier
