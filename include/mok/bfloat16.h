// SPDX-License-Identifier: Apache-2.0
// The bf16 storage type: the upper 16 bits of an IEEE-754 float32.
#pragma once

#include <cstdint>

#include <mok/host_device.h>

namespace mok {

/// Storage only; arithmetic happens in float. Trivially copyable, so a `bfloat16*` may alias a uint16 buffer
/// of another library through its bytes.
struct bfloat16 {
  std::uint16_t bits = 0;
};

/// Exact.
[[nodiscard]] MOK_HOST_DEVICE constexpr float to_float(bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even; overflow becomes infinity; NaN stays NaN with its sign (quieted).
/// Branch-free but for one select, so that loops over it vectorise.
[[nodiscard]] MOK_HOST_DEVICE constexpr bfloat16 to_bfloat16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x0040u;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return {static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded)};
}

}  // namespace mok
