// SPDX-License-Identifier: Apache-2.0
// The K loop of a consumer: 64 rows of A times 256 columns of B, stage by stage.
#pragma once

#include <cstdint>

#include "cuda/mma/descriptor.h"
#include "cuda/pipeline/compute_storage.h"
#include "cuda/ptx/wgmma.h"

namespace mok::cuda {

/// Accumulators of a thread: rows lane/4 and lane/4 + 8 of its warp's 16; acc[4j], acc[4j+1] are columns
/// 8j + 2*(lane%4) and the next of the first row, acc[4j+2], acc[4j+3] of the second.
inline constexpr int kAccumulators = kTileCols / 2;

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// acc = the task's tile, K steps in order. A step's stage is given back once the next step's products have
/// been issued and its own are done: the tensor cores are never without work.
/// \param multiply false = these rows are padding: stages are passed on unread, acc is left alone.
__device__ __forceinline__ void run_mainloop(float (&acc)[kAccumulators], ComputeStorage& storage,
                                             RingCursor<kStages>& at, int steps, int consumer,
                                             bool multiply) {
  const bool signals = threadIdx.x % kWarpgroup == 0;
  volatile Guard& guard = storage.cta.guard;
  if (!multiply) {
    for (int k = 0; k < steps; ++k) {
      storage.full[at.stage].wait(at.parity, guard);
      if (signals) storage.empty[at.stage].arrive();
      at.advance();
    }
    return;
  }
  std::uint32_t previous = 0;
  for (int k = 0; k < steps; ++k) {
    storage.full[at.stage].wait(at.parity, guard);
    const std::uint32_t a = shared_address(storage.stages[at.stage].a) +
                            static_cast<std::uint32_t>(consumer) * (kABytes / kConsumers);
    const std::uint32_t b = shared_address(storage.stages[at.stage].b);
    ptx::wgmma_fence();
#pragma unroll
    for (int slice = 0; slice < kTileK / 16; ++slice) {
      const std::uint32_t offset = static_cast<std::uint32_t>(slice) * kKMajorStep;
      ptx::wgmma_m64n256k16<0, 0>(acc, k_major_descriptor(a + offset), k_major_descriptor(b + offset),
                                  (k | slice) != 0);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (k > 0 && signals) storage.empty[previous].arrive();
    previous = at.stage;
    at.advance();
  }
  ptx::wgmma_wait_group<0>();
  if (signals) storage.empty[previous].arrive();
}

}  // namespace mok::cuda
