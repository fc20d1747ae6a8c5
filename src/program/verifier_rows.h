// SPDX-License-Identifier: Apache-2.0
// What tasks read and write in buffers of rows, from the data flow alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/verifier_program.h"

namespace mok::program::verifier {

/// Buffers of row tiles or token tiles. In a ring several row tiles share a place, one after the other. x,
/// gate and up are the context's in forward and recompute, the replay ring's in backward.
enum class Buffer : std::uint8_t {
  x,
  gate,
  up,
  hidden,  ///< Hd in forward, Hw in backward
  grad_rows,
  row_weights,
  d_gate,
  d_up,
  weight_partials,
  pushed,  ///< a row tile's slots at the source ranks; weight slots go with column 0
  shared_gate,
  shared_up,
  shared_hidden,
  shared_d_gate,
  shared_d_up,
  shared_out,
  count
};

/// Columns [first_col, end_col) of the tiles [first_tile, end_tile) of a rank's buffer.
struct Access {
  Buffer buffer = Buffer::count;
  std::int32_t rank = 0;
  std::int64_t first_tile = 0, end_tile = 0;
  std::int64_t first_col = 0, end_col = 0;
};

struct Accesses {
  std::vector<Access> reads, writes;
};

/// Accesses of one task, in place of what `out` held.
void list_accesses(const Program& program, const Node& node, Accesses& out);

/// A task that must have happened before another, and why.
struct Requirement {
  enum class Kind : std::uint8_t { read_after_write, write_after_read, write_after_write };
  std::int32_t earlier = 0;
  Kind kind = Kind::read_after_write;
  const char* buffer = "";
  std::int64_t tile = 0;
};

/// All accesses of a pass, by buffer and tile.
class RowAccesses {
 public:
  explicit RowAccesses(const Program& program);

  /// Every tile that the pass must fill is written exactly once in every column, and no other.
  void check_coverage(Report& report) const;
  /// Appends what must happen before a task: the writes that it reads, and all use of what it overwrites.
  void require(std::int32_t position, std::vector<Requirement>& out);

 private:
  struct Touch {
    std::int32_t position;
    std::int64_t first_col, end_col;
  };
  struct Tile {
    std::vector<Touch> writers, readers;
  };
  std::vector<Tile>& of(std::int32_t rank, Buffer buffer) {
    return tiles_[rank * static_cast<std::int64_t>(Buffer::count) + static_cast<std::int64_t>(buffer)];
  }
  const std::vector<Tile>& of(std::int32_t rank, Buffer buffer) const {
    return tiles_[rank * static_cast<std::int64_t>(Buffer::count) + static_cast<std::int64_t>(buffer)];
  }
  std::int64_t width(std::int32_t rank, Buffer buffer) const;
  bool must_be_written(std::int32_t rank, Buffer buffer, std::int64_t tile) const;
  std::int64_t occupant_before(std::int32_t rank, Buffer buffer, std::int64_t tile) const;
  void check_tile(std::int32_t rank, Buffer buffer, std::int64_t tile, Report& report) const;

  const Program& program_;
  std::vector<std::vector<Tile>> tiles_;  // [R, buffers][tiles]
  Accesses scratch_;
};

const char* name(Buffer buffer);

}  // namespace mok::program::verifier
