// SPDX-License-Identifier: Apache-2.0
// Rounding doubles to bf16: ties, subnormals, overflow, NaN, and the cases that rounding through float gets
// wrong.
#include "reference/rounding.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace mok::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void expect_same(double actual, double expected) {
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(std::signbit(actual), std::signbit(expected));
}

void expect_rounds(double value, double expected) {
  SCOPED_TRACE(value);
  expect_same(round_to_bfloat16(value), expected);
  expect_same(round_to_bfloat16(-value), -expected);
}

// The same by arithmetic on reals: the multiple of the spacing at `value` that is nearest, ties to even.
double rounded_by_spacing(double value) {
  const int exponent = std::max(std::ilogb(value), -126);
  const double steps = std::nearbyint(std::ldexp(value, 7 - exponent));
  const double rounded = std::ldexp(steps, exponent - 7);
  return std::abs(rounded) > 0x1.FEp127 ? std::copysign(kInfinity, value) : rounded;
}

TEST(RoundToBfloat16, KeepsEveryBfloat16Number) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = from_bfloat16_bits(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_to_bfloat16(value)));
      continue;
    }
    expect_same(round_to_bfloat16(value), value);
    EXPECT_EQ(bfloat16_bits(value), bits);
  }
}

TEST(RoundToBfloat16, BreaksTiesToEven) {
  expect_rounds(0x1.01p0, 1.0);
  expect_rounds(0x1.03p0, 0x1.04p0);
  expect_rounds(0x1.05p0, 0x1.04p0);
  expect_rounds(0x1.FFp0, 2.0);
  expect_rounds(0x1.01p-126, 0x1p-126);
}

TEST(RoundToBfloat16, RoundsToNearest) {
  expect_rounds(0x1.00FFFFFFFFFFFp0, 1.0);
  expect_rounds(0x1.0100000000001p0, 0x1.02p0);
  expect_rounds(0x1.02FFFFFFFFFFFp0, 0x1.02p0);
  expect_rounds(0.0, 0.0);
}

TEST(RoundToBfloat16, DoesNotRoundTwice) {
  // Each lies just off a bf16 tie, by less than half of float's spacing: float would make it the tie.
  expect_rounds(0x1.01p0 + 0x1p-40, 0x1.02p0);
  expect_rounds(0x1.03p0 - 0x1p-40, 0x1.02p0);
  EXPECT_EQ(round_to_bfloat16(round_to_float(0x1.01p0 + 0x1p-40)), 1.0);
  EXPECT_EQ(round_to_bfloat16(round_to_float(0x1.03p0 - 0x1p-40)), 0x1.04p0);
  expect_rounds(0x1p-134 * (1.0 + 0x1p-50), 0x1p-133);
  expect_rounds(0x3p-134 * (1.0 - 0x1p-50), 0x1p-133);
}

TEST(RoundToBfloat16, HasSubnormals) {
  expect_rounds(0x1p-133, 0x1p-133);
  expect_rounds(0x1p-134, 0.0);
  expect_rounds(0x3p-134, 0x2p-133);
  expect_rounds(0x5p-134, 0x2p-133);
  expect_rounds(0x1.FEp-127, 0x1.FCp-127 + 0x1p-133);
  expect_rounds(0x1.FFp-127, 0x1p-126);
  expect_rounds(std::numeric_limits<double>::denorm_min(), 0.0);
}

TEST(RoundToBfloat16, OverflowsToInfinity) {
  expect_rounds(0x1.FEp127, 0x1.FEp127);
  expect_rounds(0x1.FEFFFFFFFFFFFp127, 0x1.FEp127);
  expect_rounds(0x1.FFp127, kInfinity);
  expect_rounds(0x1p128, kInfinity);
  expect_rounds(std::numeric_limits<double>::max(), kInfinity);
  expect_rounds(kInfinity, kInfinity);
}

TEST(RoundToBfloat16, KeepsNaN) {
  EXPECT_TRUE(std::isnan(round_to_bfloat16(kNaN)));
  EXPECT_TRUE(std::isnan(round_to_bfloat16(-kNaN)));
  EXPECT_TRUE(std::isnan(from_bfloat16_bits(bfloat16_bits(kNaN))));
  EXPECT_EQ(bfloat16_bits(kInfinity), 0x7F80);
  EXPECT_EQ(bfloat16_bits(-kInfinity), 0xFF80);
}

TEST(RoundToBfloat16, AgreesWithArithmeticOnTheSpacing) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t bits = random();
    const double significand = 1.0 + static_cast<double>(bits >> 12) * 0x1p-52;
    const int exponent = static_cast<int>(random() % 270) - 140;
    // Half of them close to a tie.
    const bool near_tie = (bits & 1u) != 0;
    const double tie = std::floor(significand * 0x1p7) * 0x1p-7 + 0x1p-8;
    const double offset = static_cast<double>(bits % 5) - 2.0;
    const double value = std::ldexp(near_tie ? tie + offset * 0x1p-52 : significand, exponent);
    expect_rounds(value, rounded_by_spacing(value));
  }
}

TEST(RoundToFloat, RoundsToNearestEven) {
  EXPECT_EQ(round_to_float(1.0 + 0x1p-24), 1.0);
  EXPECT_EQ(round_to_float(1.0 + 0x3p-24), 1.0 + 0x1p-22);
  EXPECT_EQ(round_to_float(0x1p-150), 0.0);
  EXPECT_EQ(round_to_float(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(round_to_float(kNaN)));
}

}  // namespace
}  // namespace mok::reference
