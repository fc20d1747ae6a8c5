// SPDX-License-Identifier: Apache-2.0
// down on the GPU: what follows the K loop. Padding rows are never pushed: the store warp leaves them out.
#pragma once

#include <cstdint>

#include "cuda/mma/mainloop.h"
#include "cuda/pipeline/chunk_writer.h"

namespace mok::ops {

/// Hands on the first `chunks` times 128 columns of y.
__device__ __forceinline__ void down_epilogue(float (&acc)[cuda::kAccumulators], cuda::ChunkWriter& writer,
                                              int chunks) {
  constexpr int kPerChunk = cuda::kChunkCols / 2;
#pragma unroll
  for (int chunk = 0; chunk < cuda::kTileCols / cuda::kChunkCols; ++chunk) {
    if (chunk >= chunks) break;
    writer.write([&](int j, std::uint32_t& upper, std::uint32_t& lower) {
      const int first = chunk * kPerChunk + 4 * j;
      upper = cuda::pack(acc[first], acc[first + 1]);
      lower = cuda::pack(acc[first + 2], acc[first + 3]);
    });
  }
}

}  // namespace mok::ops
