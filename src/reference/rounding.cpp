// SPDX-License-Identifier: Apache-2.0
#include "reference/rounding.h"

#include <bit>
#include <cmath>
#include <limits>

namespace mok::reference {
namespace {

// A double stores 52 bits after the leading one, a bf16 stores 7.
constexpr int kDroppedBits = 52 - 7;
constexpr double kSmallestNormal = 0x1p-126;
constexpr double kLargest = 0x1.FEp127;

double round_normal(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t odd = (bits >> kDroppedBits) & 1u;
  const std::uint64_t just_below_half = (std::uint64_t{1} << (kDroppedBits - 1)) - 1;
  // A carry out of the significand moves into the exponent, which is what rounding up to a power of two
  // means.
  const std::uint64_t rounded = ((bits + just_below_half + odd) >> kDroppedBits) << kDroppedBits;
  return std::bit_cast<double>(rounded);
}

double round_subnormal(double value) {
  // bf16's subnormals are the multiples of 2^-133. Doubles in [2^-81, 2^-80) have exactly that spacing, so
  // the addition itself rounds to such a multiple (to nearest, ties to even), and the subtraction is exact.
  constexpr double kSpacedLikeSubnormals = 0x1.8p-81;
  const double shifted = value + kSpacedLikeSubnormals;
  return std::copysign(shifted - kSpacedLikeSubnormals, value);
}

}  // namespace

double round_to_bfloat16(double value) {
  if (std::isnan(value) || std::isinf(value)) return value;
  if (std::abs(value) < kSmallestNormal) return round_subnormal(value);
  const double rounded = round_normal(value);
  if (std::abs(rounded) <= kLargest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

double round_to_float(double value) { return static_cast<double>(static_cast<float>(value)); }

std::uint16_t bfloat16_bits(double value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFFC0 : 0x7FC0;
  // Every bf16 number is a float, so this conversion is exact and bf16 is the float's upper half.
  const float rounded = static_cast<float>(round_to_bfloat16(value));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

double from_bfloat16_bits(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

}  // namespace mok::reference
