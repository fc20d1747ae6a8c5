// SPDX-License-Identifier: Apache-2.0
// exp in float from fma alone.
//
// Not std::exp: a loop over libm's would not vectorise (a tenth of a small layer's time), and a vector
// library's rounds differently at the ends of a loop, so that a value would depend on where its row stands.
// Built from correctly rounded operations, this one gives the same bits in scalar code, in any vector width,
// and on a GPU.
#pragma once

#include <cstdint>

#include "ops/arith.h"

namespace mok::ops {

/// e^x within 1.1 ulp in the normal range; 0 below -104, infinity above 89, NaN for NaN.
MOK_HOST_DEVICE inline float exp(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kLn2High = 0.693145751953125f;  // 15 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = 1.42860682030941723212e-6f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits

  // Written so that NaN, which compares false, passes through.
  const float low = x < -104.0f ? -104.0f : x;
  const float clamped = low > 89.0f ? 89.0f : low;
  const float shifted = fma(clamped, kLog2e, kRound);
  const float n = add(shifted, -kRound);
  const float r = fma(n, -kLn2Low, fma(n, -kLn2High, clamped));

  // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2].
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  const float mantissa = add(fma(mul(r, r), p, r), 1.0f);

  // 2^n in two factors, since n runs from -150 to 128: one factor alone would leave the exponent's range.
  const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, shifted) - 0x4B400000u;
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  const float scale0 = __builtin_bit_cast(float, (half + 127u) << 23);
  const float scale1 = __builtin_bit_cast(float, (exponent - half + 127u) << 23);
  return mul(mul(mantissa, scale0), scale1);
}

}  // namespace mok::ops
