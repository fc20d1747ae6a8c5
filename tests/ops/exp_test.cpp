// SPDX-License-Identifier: Apache-2.0
// ops::exp against float64: its error over the whole range, and its ends.
#include "ops/swiglu/exp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "support/shapes.h"

namespace mok::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The distance between floats at a value, down to the subnormals.
double ulp(double value) {
  constexpr int kMantissaBits = 23;
  constexpr int kSmallestExponent = -149;
  return std::ldexp(1.0, std::max(std::ilogb(value) - kMantissaBits, kSmallestExponent));
}

/// |ops::exp(x) - e^x| in ulp. Where e^x is next to what a float can hold, infinity counts as the next
/// number.
double error_in_ulp(float x) {
  const double exact = std::exp(static_cast<double>(x));
  const float got = exp(x);
  const double widened = std::isinf(got) ? 0x1p128 : static_cast<double>(got);
  return std::abs(widened - std::min(exact, 0x1p128)) / ulp(exact);
}

/// The largest error over the floats from `from` to `to` of one sign, every `stride`-th of them.
double largest_error(float from, float to, std::uint32_t stride) {
  const auto first = std::bit_cast<std::uint32_t>(from);
  const auto last = std::bit_cast<std::uint32_t>(to);
  double largest = 0;
  for (std::uint64_t bits = first; bits <= last; bits += stride) {
    largest = std::max(largest, error_in_ulp(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  }
  return largest;
}

TEST(Exp, IsWithinOneAndAHalfUlpOverItsRange) {
  const std::uint32_t stride = testing::small_tests() ? 10007 : 199;
  EXPECT_LE(largest_error(0.0f, 89.0f, stride), 1.5);
  EXPECT_LE(largest_error(-0.0f, -104.0f, stride), 1.5);
}

// Two consecutive binades hold every fractional part that the polynomial meets, near ln2/2 its worst.
TEST(Exp, IsWithinOneAndAHalfUlpBetweenOneAndFour) {
  const std::uint32_t stride = testing::small_tests() ? 503 : 13;
  EXPECT_LE(largest_error(1.0f, 4.0f, stride), 1.5);
  EXPECT_LE(largest_error(-1.0f, -4.0f, stride), 1.5);
}

TEST(Exp, IsWithinOneAndAHalfUlpAtItsEnds) {
  EXPECT_LE(largest_error(88.7f, 88.73f, 1), 1.5) << "where it becomes infinite";
  EXPECT_LE(largest_error(-87.3f, -87.4f, 1), 1.5) << "where it becomes subnormal";
  EXPECT_LE(largest_error(-103.9f, -104.1f, 1), 1.5) << "where it becomes zero";
}

TEST(Exp, IsExactOrNamedAtSpecialValues) {
  EXPECT_EQ(1.0f, exp(0.0f));
  EXPECT_EQ(1.0f, exp(-0.0f));
  EXPECT_EQ(0.0f, exp(-104.0f));
  EXPECT_EQ(0.0f, exp(-kInfinity));
  EXPECT_EQ(0.0f, exp(std::numeric_limits<float>::lowest()));
  EXPECT_EQ(kInfinity, exp(89.0f));
  EXPECT_EQ(kInfinity, exp(kInfinity));
  EXPECT_EQ(kInfinity, exp(std::numeric_limits<float>::max()));
  EXPECT_TRUE(std::isnan(exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(1.0f, exp(std::numeric_limits<float>::denorm_min()));
}

TEST(Exp, GrowsOrStaysWhereItsArgumentGrows) {
  float before = exp(-104.0f);
  for (float x = -104.0f; x <= 89.0f; x += 0x1p-9f) {
    const float now = exp(x);
    ASSERT_LE(before, now) << x;
    before = now;
  }
}

}  // namespace
}  // namespace mok::ops
