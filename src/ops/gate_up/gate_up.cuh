// SPDX-License-Identifier: Apache-2.0
// gate_up on the GPU: what follows the K loop. Accumulators 0-63 of a thread are 128 columns of gate, 64-127
// the same columns of up, so that matching elements meet in one thread.
#pragma once

#include <cstdint>

#include "cuda/mma/mainloop.h"
#include "cuda/pipeline/chunk_writer.h"
#include "ops/swiglu/swiglu.h"

namespace mok::ops {

/// Elements of a packed pair.
__device__ __forceinline__ bfloat16 low_half(std::uint32_t pair) {
  return {static_cast<std::uint16_t>(pair & 0xFFFFu)};
}
__device__ __forceinline__ bfloat16 high_half(std::uint32_t pair) {
  return {static_cast<std::uint16_t>(pair >> 16)};
}

__device__ __forceinline__ std::uint32_t swiglu_pair(std::uint32_t gate, std::uint32_t up,
                                                     SwigluLimit limit) {
  return cuda::pack(swiglu_value(low_half(gate), low_half(up), limit),
                    swiglu_value(high_half(gate), high_half(up), limit));
}

/// Hands on G, U and, where `wants_hidden`, Hd. Rows at and past `real_rows` of this consumer's 64 are zeros.
__device__ __forceinline__ void gate_up_epilogue(float (&acc)[cuda::kAccumulators], cuda::ChunkWriter& writer,
                                                 int real_rows, bool wants_hidden, SwigluLimit limit) {
  constexpr int kUp = cuda::kAccumulators / 2;
  const int row = static_cast<int>(threadIdx.x) % cuda::kWarpgroup / cuda::kWarp * 16 +
                  static_cast<int>(threadIdx.x) % cuda::kWarp / 4;
  const bool upper_is_real = row < real_rows;
  const bool lower_is_real = row + 8 < real_rows;
  // Selected, not multiplied: a product with a padding row's x of zeros is NaN where a weight is infinite.
  const auto rounded = [&](int first, int j, std::uint32_t& upper, std::uint32_t& lower) {
    upper = upper_is_real ? cuda::pack(acc[first + 4 * j], acc[first + 4 * j + 1]) : 0;
    lower = lower_is_real ? cuda::pack(acc[first + 4 * j + 2], acc[first + 4 * j + 3]) : 0;
  };
  writer.write([&](int j, std::uint32_t& upper, std::uint32_t& lower) { rounded(0, j, upper, lower); });
  writer.write([&](int j, std::uint32_t& upper, std::uint32_t& lower) { rounded(kUp, j, upper, lower); });
  if (!wants_hidden) return;
  writer.write([&](int j, std::uint32_t& upper, std::uint32_t& lower) {
    std::uint32_t gate_upper, gate_lower, up_upper, up_lower;
    rounded(0, j, gate_upper, gate_lower);
    rounded(kUp, j, up_upper, up_lower);
    upper = swiglu_pair(gate_upper, up_upper, limit);
    lower = swiglu_pair(gate_lower, up_lower, limit);
  });
}

}  // namespace mok::ops
