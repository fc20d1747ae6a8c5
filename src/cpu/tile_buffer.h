// SPDX-License-Identifier: Apache-2.0
// Scratch of one worker: float tiles that GEMM steps read and accumulate into, and moving them from and to
// bf16.
#pragma once

#include <algorithm>
#include <cstdint>

#include <mok/bfloat16.h>

namespace mok::cpu {

inline constexpr std::int64_t kTile = 128;  ///< rows and columns of an accumulator
inline constexpr std::int64_t kStep = 64;   ///< contraction per GEMM step; divides every legal H and I

/// About 224 KB: fits a core's second-level cache beside the rows being read.
struct TileBuffer {
  alignas(64) float a[kTile * kStep];
  alignas(64) float b[kTile * kStep];
  alignas(64) float acc[2][kTile * kTile];

  void clear(int which) { std::fill_n(acc[which], kTile * kTile, 0.0f); }
};

/// Fills a [rows, Cols] float tile from bf16 rows `stride` apart; what lies outside the valid part becomes
/// zero.
template <std::int64_t Cols>
inline void load_tile(float* tile, std::int64_t rows, const bfloat16* source, std::int64_t stride,
                      std::int64_t valid_rows, std::int64_t valid_cols) {
  for (std::int64_t r = 0; r < valid_rows; ++r) {
    const bfloat16* from = source + r * stride;
    float* to = tile + r * Cols;
    if (valid_cols >= Cols) {
      for (std::int64_t c = 0; c < Cols; ++c) to[c] = to_float(from[c]);
    } else {
      for (std::int64_t c = 0; c < valid_cols; ++c) to[c] = to_float(from[c]);
      std::fill(to + valid_cols, to + Cols, 0.0f);
    }
  }
  std::fill(tile + valid_rows * Cols, tile + rows * Cols, 0.0f);
}

/// Rounds `cols` values to bf16.
inline void store_row(bfloat16* to, const float* from, std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; ++c) to[c] = to_bfloat16(from[c]);
}

}  // namespace mok::cpu
