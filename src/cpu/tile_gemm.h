// SPDX-License-Identifier: Apache-2.0
// The one GEMM of the CPU backend: a step of a fixed 128 x 128 x 64 tile through Eigen.
//
// Eigen, because it is header-only (it can be brought along to a machine without a network), in every Debian
// and Ubuntu, single-threaded when asked, and fast at this size. See docs/facts.md for its measured rate.
#pragma once

#include "cpu/tile_buffer.h"

namespace mok::cpu {

/// How an operand tile lies in memory.
enum class Layout {
  rows_by_step,  ///< [128, 64]: the contraction is contiguous
  step_by_rows   ///< [64, 128]: rows (or columns) of the result are contiguous
};

/// acc[m][n] += sum over k of a(m,k) * b(n,k), m, n < 128, k < 64.
///
/// An element's bits depend on its column n, on k's order and on its own operands, never on its row m or on
/// other rows: activations' rows stand in m and may land anywhere in a tile. check_tile_gemm proves it on
/// this machine.
void tile_gemm(float* acc, const float* a, Layout a_layout, const float* b, Layout b_layout);

/// Throws mok::Error if the library's kernel makes bits depend on a row's place. Runs once per process (about
/// a millisecond).
void check_tile_gemm();

}  // namespace mok::cpu
