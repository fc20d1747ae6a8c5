// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile_gemm.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include <mok/error.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace mok::cpu {
namespace {

using Accumulator = Eigen::Matrix<float, kTile, kTile, Eigen::ColMajor>;
using ByRows = Eigen::Matrix<float, kTile, kStep, Eigen::RowMajor>;
using ByStep = Eigen::Matrix<float, kTile, kStep, Eigen::ColMajor>;

/// Computes the transposed product, acc^T += b a^T: Eigen cuts its row dimension into packets of several
/// widths with kernels that sum differently, but treats columns alike in groups of four. So n goes to Eigen's
/// rows, where every element has a fixed place, and m to its columns.
template <class A, class B>
void multiply(float* acc, const float* a, const float* b) {
  Eigen::Map<Accumulator, Eigen::Aligned64> result(acc);
  const Eigen::Map<const A, Eigen::Aligned64> left(a);
  const Eigen::Map<const B, Eigen::Aligned64> right(b);
  result.noalias() += right * left.transpose();
}

void run_check() {
  struct Tiles {
    TileBuffer first, second;
  };
  const auto tiles = std::make_unique<Tiles>();
  const auto value = [](std::int64_t i) {
    return static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
  };
  for (std::int64_t i = 0; i < kTile * kStep; ++i) tiles->first.b[i] = tiles->second.b[i] = value(3 * i + 1);
  for (const Layout layout : {Layout::rows_by_step, Layout::step_by_rows}) {
    const auto at = [layout](std::int64_t m, std::int64_t k) {
      return layout == Layout::rows_by_step ? m * kStep + k : k * kTile + m;
    };
    // One row everywhere, against the same row alone among NaN: all rows must agree, whatever stands beside
    // them.
    for (std::int64_t m = 0; m < kTile; ++m) {
      for (std::int64_t k = 0; k < kStep; ++k) {
        tiles->first.a[at(m, k)] = value(k);
        tiles->second.a[at(m, k)] = m % 5 == 3 ? value(k) : std::numeric_limits<float>::quiet_NaN();
      }
    }
    for (const Layout b_layout : {Layout::rows_by_step, Layout::step_by_rows}) {
      tiles->first.clear(0);
      tiles->second.clear(0);
      tile_gemm(tiles->first.acc[0], tiles->first.a, layout, tiles->first.b, b_layout);
      tile_gemm(tiles->second.acc[0], tiles->second.a, layout, tiles->second.b, b_layout);
      const float* expected = tiles->first.acc[0];
      for (std::int64_t m = 0; m < kTile; ++m) {
        const float* row = tiles->first.acc[0] + m * kTile;
        const float* beside_nan = tiles->second.acc[0] + m * kTile;
        const bool same = std::memcmp(row, expected, kTile * sizeof(float)) == 0;
        const bool alone = m % 5 != 3 || std::memcmp(beside_nan, expected, kTile * sizeof(float)) == 0;
        if (!same || !alone) {
          throw Error(
              "the tile GEMM of this build gives a row different bits at different places of a tile, so "
              "results would depend on the batch; build with the Eigen version and flags of "
              "docs/numerics.md");
        }
      }
    }
  }
}

}  // namespace

void tile_gemm(float* acc, const float* a, Layout a_layout, const float* b, Layout b_layout) {
  if (a_layout == Layout::rows_by_step) {
    if (b_layout == Layout::rows_by_step) {
      multiply<ByRows, ByRows>(acc, a, b);
    } else {
      multiply<ByRows, ByStep>(acc, a, b);
    }
  } else {
    if (b_layout == Layout::rows_by_step) {
      multiply<ByStep, ByRows>(acc, a, b);
    } else {
      multiply<ByStep, ByStep>(acc, a, b);
    }
  }
}

void check_tile_gemm() {
  static const bool checked = [] {
    run_check();
    return true;
  }();
  static_cast<void>(checked);
}

}  // namespace mok::cpu
