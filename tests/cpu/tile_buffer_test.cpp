// SPDX-License-Identifier: Apache-2.0
// Loading tiles at the edges of a tensor, and rounding rows back.
#include "cpu/tile_buffer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace mok::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Loads a tile whose valid part ends where its allocation ends, so that a sanitizer sees any read past it.
template <std::int64_t Cols>
void expect_edges(std::int64_t rows, std::int64_t valid_rows, std::int64_t valid_cols, std::int64_t stride) {
  const std::int64_t size = valid_rows == 0 ? 0 : (valid_rows - 1) * stride + valid_cols;
  const auto source = std::make_unique<bfloat16[]>(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const bool inside = i % stride < valid_cols;
    source[static_cast<std::size_t>(i)] = to_bfloat16(inside ? static_cast<float>(i % 251 + 1) : kNaN);
  }
  std::vector<float> tile(static_cast<std::size_t>(rows * Cols), kNaN);
  load_tile<Cols>(tile.data(), rows, source.get(), stride, valid_rows, valid_cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < Cols; ++c) {
      const bool valid = r < valid_rows && c < valid_cols;
      const float expected = valid ? static_cast<float>((r * stride + c) % 251 + 1) : 0.0f;
      ASSERT_EQ(tile[static_cast<std::size_t>(r * Cols + c)], expected)
          << "row " << r << ", column " << c << " of " << valid_rows << " x " << valid_cols;
    }
  }
}

TEST(LoadTile, RowsOfAStep) {
  for (const std::int64_t valid_rows : {0, 1, 127, 128}) {
    for (const std::int64_t stride : {64, 192}) expect_edges<kStep>(kTile, valid_rows, kStep, stride);
  }
}

TEST(LoadTile, StepsOfRows) {
  for (const std::int64_t valid_rows : {0, 1, 63, 64}) {
    for (const std::int64_t valid_cols : {1, 64, 127, 128}) {
      for (const std::int64_t stride : {128, 320}) expect_edges<kTile>(kStep, valid_rows, valid_cols, stride);
    }
  }
}

TEST(LoadTile, PassesSpecialValuesOn) {
  const bfloat16 source[] = {{0x7F80}, {0xFF80}, {0x7FC1}, {0x8000}, {0x0001}};
  float tile[kStep];
  load_tile<kStep>(tile, 1, source, kStep, 1, 5);
  EXPECT_EQ(tile[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(tile[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(tile[2]));
  EXPECT_TRUE(tile[3] == 0 && std::signbit(tile[3]));
  EXPECT_EQ(tile[4], std::ldexp(1.0f, -133));
  EXPECT_TRUE(std::all_of(tile + 5, tile + kStep, [](float value) { return value == 0; }));
}

TEST(StoreRow, RoundsToNearestEvenAndNoFurther) {
  const float from[] = {1.0f, 1.00390625f, 1.01171875f, 3.4e38f, -1e-45f, kNaN};
  bfloat16 to[7] = {};
  to[6] = {0x1234};
  store_row(to, from, 6);
  EXPECT_EQ(to[0].bits, 0x3F80);
  EXPECT_EQ(to[1].bits, 0x3F80) << "a tie goes to the even neighbour below";
  EXPECT_EQ(to[2].bits, 0x3F82) << "a tie goes to the even neighbour above";
  EXPECT_EQ(to[3].bits, 0x7F80);
  EXPECT_EQ(to[4].bits, 0x8000);
  EXPECT_TRUE(std::isnan(to_float(to[5])));
  EXPECT_EQ(to[6].bits, 0x1234);
}

TEST(TileBuffer, ClearsOneAccumulator) {
  const auto buffer = std::make_unique<TileBuffer>();
  for (auto& acc : buffer->acc) std::fill_n(acc, kTile * kTile, kNaN);
  buffer->clear(1);
  EXPECT_TRUE(std::isnan(buffer->acc[0][kTile * kTile - 1]));
  EXPECT_TRUE(
      std::all_of(buffer->acc[1], buffer->acc[1] + kTile * kTile, [](float value) { return value == 0; }));
}

}  // namespace
}  // namespace mok::cpu
