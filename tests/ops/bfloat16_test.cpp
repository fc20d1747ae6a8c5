// SPDX-License-Identifier: Apache-2.0
// bf16 conversion against the float64 reference's, which shares no code with it.
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <gtest/gtest.h>

#include <mok/bfloat16.h>

#include "reference/rounding.h"

namespace mok {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Whether a float is rounded as the reference rounds it; a NaN must stay a quiet NaN of the same sign.
bool rounds_rightly(std::uint32_t bits) {
  const std::uint16_t got = to_bfloat16(float_of(bits)).bits;
  if (std::isnan(float_of(bits))) {
    const bool is_quiet_nan = (got & 0x7FC0u) == 0x7FC0u;
    return is_quiet_nan && (got >> 15) == (bits >> 31);
  }
  return got == reference::bfloat16_bits(static_cast<double>(float_of(bits)));
}

TEST(Bfloat16, IsTheUpperHalfOfAFloatForAllPatterns) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(bits << 16, bits_of(to_float(value)));
    if (std::isnan(to_float(value))) {
      ASSERT_EQ(bits | 0x40u, to_bfloat16(to_float(value)).bits)
          << "a NaN keeps its sign and payload, and is quiet";
    } else {
      ASSERT_EQ(bits, to_bfloat16(to_float(value)).bits);
      ASSERT_EQ(reference::from_bfloat16_bits(value.bits), static_cast<double>(to_float(value)));
    }
  }
}

TEST(Bfloat16, RoundsToNearestEvenBesideEveryNumberAndEveryTie) {
  std::uint32_t wrong = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower :
         {0x0000u, 0x0001u, 0x7FFEu, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFEu, 0xFFFFu}) {
      if (!rounds_rightly(upper << 16 | lower)) ++wrong;
    }
  }
  EXPECT_EQ(0u, wrong);
}

TEST(Bfloat16, RoundsToNearestAllOverTheFloats) {
  constexpr std::uint64_t kStride = 4099;  // odd, so that all low parts occur
  std::uint64_t wrong = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += kStride) {
    if (!rounds_rightly(static_cast<std::uint32_t>(bits))) ++wrong;
  }
  EXPECT_EQ(0u, wrong);
}

TEST(Bfloat16, OverflowsToInfinityFromTheMiddleBetweenTheLargestNumberAndTheNext) {
  constexpr std::uint16_t kInfinity = 0x7F80;
  constexpr std::uint16_t kLargest = 0x7F7F;
  EXPECT_EQ(kInfinity, to_bfloat16(std::numeric_limits<float>::infinity()).bits);
  EXPECT_EQ(kInfinity, to_bfloat16(std::numeric_limits<float>::max()).bits);
  EXPECT_EQ(kInfinity, to_bfloat16(float_of(0x7F7F8000u)).bits);
  EXPECT_EQ(kLargest, to_bfloat16(float_of(0x7F7F7FFFu)).bits);
  EXPECT_EQ(kInfinity | 0x8000u, to_bfloat16(-std::numeric_limits<float>::max()).bits);
}

TEST(Bfloat16, IsKnownAtCompileTime) {
  static_assert(to_bfloat16(1.0f).bits == 0x3F80);
  static_assert(to_float(bfloat16{0xC000}) == -2.0f);
}

}  // namespace
}  // namespace mok
