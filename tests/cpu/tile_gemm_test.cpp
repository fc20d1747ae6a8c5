// SPDX-License-Identifier: Apache-2.0
// The tile GEMM: right for every layout, and the same bits for a row wherever it stands and whatever stands
// beside it.
#include "cpu/tile_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace mok::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A [128, 64] operand by element, and where each element lies in a layout.
struct Operand {
  std::vector<float> values = std::vector<float>(kTile * kStep);

  float& at(std::int64_t row, std::int64_t k) { return values[static_cast<std::size_t>(row * kStep + k)]; }
  [[nodiscard]] float at(std::int64_t row, std::int64_t k) const {
    return values[static_cast<std::size_t>(row * kStep + k)];
  }
  void fill_row(std::int64_t row, float value) {
    for (std::int64_t k = 0; k < kStep; ++k) at(row, k) = value;
  }
  void lay_out(float* tile, Layout layout) const {
    for (std::int64_t row = 0; row < kTile; ++row) {
      for (std::int64_t k = 0; k < kStep; ++k) {
        tile[layout == Layout::rows_by_step ? row * kStep + k : k * kTile + row] = at(row, k);
      }
    }
  }
};

using Accumulator = std::vector<float>;  // [128, 128]

struct Layouts {
  Layout a, b;
};

class TileGemm : public ::testing::TestWithParam<Layouts> {
 protected:
  Operand random_operand() {
    Operand operand;
    for (float& value : operand.values) value = normal_(random_);
    return operand;
  }
  Accumulator random_accumulator() {
    Accumulator acc(kTile * kTile);
    for (float& value : acc) value = normal_(random_);
    return acc;
  }
  void multiply(Accumulator& acc, const Operand& a, const Operand& b) {
    a.lay_out(buffer_->a, GetParam().a);
    b.lay_out(buffer_->b, GetParam().b);
    std::copy(acc.begin(), acc.end(), buffer_->acc[0]);
    tile_gemm(buffer_->acc[0], buffer_->a, GetParam().a, buffer_->b, GetParam().b);
    std::copy_n(buffer_->acc[0], kTile * kTile, acc.begin());
  }
  static bool same_row(const Accumulator& x, std::int64_t row_x, const Accumulator& y, std::int64_t row_y) {
    return std::memcmp(x.data() + row_x * kTile, y.data() + row_y * kTile, kTile * sizeof(float)) == 0;
  }

  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
  std::unique_ptr<TileBuffer> buffer_ = std::make_unique<TileBuffer>();
};

INSTANTIATE_TEST_SUITE_P(Layouts, TileGemm,
                         ::testing::Values(Layouts{Layout::rows_by_step, Layout::rows_by_step},
                                           Layouts{Layout::rows_by_step, Layout::step_by_rows},
                                           Layouts{Layout::step_by_rows, Layout::rows_by_step},
                                           Layouts{Layout::step_by_rows, Layout::step_by_rows}),
                         [](const auto& instance) {
                           const auto name = [](Layout layout) {
                             return std::string(layout == Layout::rows_by_step ? "RowsByStep" : "StepByRows");
                           };
                           return name(instance.param.a) + name(instance.param.b);
                         });

// In whatever order 64 products and the accumulator are summed, with or without fma, each partial result is
// rounded at most 66 times: the error is below 66 * 2^-24 of the sum of magnitudes (to first order, hence
// 67).
TEST_P(TileGemm, AgreesWithDouble) {
  const Operand a = random_operand();
  const Operand b = random_operand();
  const Accumulator before = random_accumulator();
  Accumulator after = before;
  multiply(after, a, b);
  for (std::int64_t m = 0; m < kTile; ++m) {
    for (std::int64_t n = 0; n < kTile; ++n) {
      const std::size_t i = static_cast<std::size_t>(m * kTile + n);
      double exact = before[i];
      double magnitude = std::abs(exact);
      for (std::int64_t k = 0; k < kStep; ++k) {
        const double product = static_cast<double>(a.at(m, k)) * static_cast<double>(b.at(n, k));
        exact += product;
        magnitude += std::abs(product);
      }
      ASSERT_LE(std::abs(static_cast<double>(after[i]) - exact), 67 * std::ldexp(magnitude, -24))
          << m << " " << n;
    }
  }
}

// Small integers leave nothing to round: a transposed or shifted operand shows exactly.
TEST_P(TileGemm, IsExactOnIntegers) {
  Operand a;
  Operand b;
  for (std::int64_t row = 0; row < kTile; ++row) {
    for (std::int64_t k = 0; k < kStep; ++k) {
      a.at(row, k) = static_cast<float>((row * 7 + k * 3) % 11 - 5);
      b.at(row, k) = static_cast<float>((row * 5 + k * 13) % 17 - 8);
    }
  }
  Accumulator acc(kTile * kTile);
  std::iota(acc.begin(), acc.end(), 0.0f);
  multiply(acc, a, b);
  for (std::int64_t m = 0; m < kTile; ++m) {
    for (std::int64_t n = 0; n < kTile; ++n) {
      float expected = static_cast<float>(m * kTile + n);
      for (std::int64_t k = 0; k < kStep; ++k) expected += a.at(m, k) * b.at(n, k);
      ASSERT_EQ(acc[static_cast<std::size_t>(m * kTile + n)], expected) << m << " " << n;
    }
  }
}

// Several steps, so that what an accumulator starts from is a row's own too.
TEST_P(TileGemm, RowsMayStandAnywhere) {
  std::vector<std::int64_t> place(kTile);
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), random_);
  Accumulator straight = random_accumulator();
  Accumulator shuffled(straight.size());
  const auto move_rows = [&place](const auto& from, auto& to, std::int64_t cols) {
    for (std::int64_t m = 0; m < kTile; ++m) {
      std::copy_n(from.begin() + m * cols, cols, to.begin() + place[static_cast<std::size_t>(m)] * cols);
    }
  };
  move_rows(straight, shuffled, kTile);
  for (int step = 0; step < 4; ++step) {
    const Operand a = random_operand();
    const Operand b = random_operand();
    Operand moved;
    move_rows(a.values, moved.values, kStep);
    multiply(straight, a, b);
    multiply(shuffled, moved, b);
  }
  for (std::int64_t m = 0; m < kTile; ++m) {
    EXPECT_TRUE(same_row(straight, m, shuffled, place[static_cast<std::size_t>(m)])) << "row " << m;
  }
}

TEST_P(TileGemm, RowsDoNotSeeEachOther) {
  const Operand a = random_operand();
  const Operand b = random_operand();
  Accumulator together(kTile * kTile);
  multiply(together, a, b);
  for (const float other : {kNaN, kInfinity, 0.0f, 1e30f}) {
    for (std::int64_t m = 0; m < kTile; m += 3) {
      Operand alone;
      std::fill(alone.values.begin(), alone.values.end(), other);
      for (std::int64_t k = 0; k < kStep; ++k) alone.at(m, k) = a.at(m, k);
      Accumulator acc(kTile * kTile);
      multiply(acc, alone, b);
      ASSERT_TRUE(same_row(together, m, acc, m)) << "row " << m << " beside rows of " << other;
    }
  }
}

// The edge of a weight is padded with zeros: what stands there must not reach other columns.
TEST_P(TileGemm, ColumnsDoNotSeeEachOther) {
  const Operand a = random_operand();
  Operand b = random_operand();
  Accumulator clean(kTile * kTile);
  multiply(clean, a, b);
  for (std::int64_t n = 0; n < kTile; ++n) {
    if (n % 3 != 0) b.fill_row(n, kNaN);
  }
  Accumulator beside_nan(kTile * kTile);
  multiply(beside_nan, a, b);
  for (std::int64_t m = 0; m < kTile; ++m) {
    for (std::int64_t n = 0; n < kTile; n += 3) {
      const std::size_t i = static_cast<std::size_t>(m * kTile + n);
      ASSERT_EQ(clean[i], beside_nan[i]) << m << " " << n;
    }
  }
}

// Padding rows of a contraction are zeros on both sides and must change nothing.
TEST_P(TileGemm, AStepOfZerosChangesNothing) {
  const Operand a = random_operand();
  const Operand b = random_operand();
  Accumulator acc(kTile * kTile);
  multiply(acc, a, b);
  const Accumulator before = acc;
  multiply(acc, {}, {});
  EXPECT_EQ(std::memcmp(acc.data(), before.data(), acc.size() * sizeof(float)), 0);
}

TEST_P(TileGemm, RunsRepeat) {
  const Operand a = random_operand();
  const Operand b = random_operand();
  Accumulator first(kTile * kTile);
  Accumulator second(kTile * kTile);
  multiply(first, a, b);
  multiply(second, a, b);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
}

TEST(CheckTileGemm, AcceptsThisBuild) {
  EXPECT_NO_THROW(check_tile_gemm());
  EXPECT_NO_THROW(check_tile_gemm()) << "it runs once";
}

}  // namespace
}  // namespace mok::cpu
