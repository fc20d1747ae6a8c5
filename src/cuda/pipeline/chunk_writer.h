// SPDX-License-Identifier: Apache-2.0
// From a consumer's registers to the store warp, a chunk of 64 rows x 128 columns at a time.
#pragma once

#include <cstdint>

#include <cuda/ptx>
#include <cuda_bf16.h>

#include "cuda/pipeline/compute_storage.h"
#include "cuda/ptx/stmatrix.h"

namespace mok::cuda {

/// Two bf16, the first in the low half; rounds to nearest even.
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

struct ChunkWriter {
  ComputeStorage& storage;
  int consumer;
  RingCursor<kChunks> at = {};

  /// Writes one chunk. `value(j, upper, lower)` gives columns 8j + 2*(lane%4) and the next, packed, of this
  /// thread's upper row (lane/4 of the warp's 16) and lower row (8 below), for j < 16.
  template <class Value>
  __device__ __forceinline__ void write(Value&& value) {
    Barrier& drained = storage.drained[consumer][at.stage];
    drained.wait(at.parity ^ 1, storage.cta.guard);
    const std::uint32_t thread = threadIdx.x % kWarpgroup;
    const std::uint32_t lane = thread % kWarp;
    // Lanes 0-15 address the rows of the left 8 columns, lanes 16-31 those of the right 8.
    const std::uint32_t row = thread / kWarp * 16 + lane % 16;
    std::uint32_t to =
        static_cast<std::uint32_t>(__cvta_generic_to_shared(storage.chunks[consumer][at.stage])) +
        row * kChunkPitch + lane / 16 * 16;
#pragma unroll
    for (int j = 0; j < kChunkCols / 8; j += 2) {
      std::uint32_t upper0, lower0, upper1, lower1;
      value(j, upper0, lower0);
      value(j + 1, upper1, lower1);
      ptx::stmatrix_x4(to + static_cast<std::uint32_t>(j) * 16, upper0, lower0, upper1, lower1);
    }
    // stmatrix writes by the generic proxy, bulk copies read by the async proxy: a fence by every writer.
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    storage.staged[consumer][at.stage].arrive();
    at.advance();
  }
};

}  // namespace mok::cuda
