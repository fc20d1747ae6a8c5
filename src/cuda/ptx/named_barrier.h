// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mok::cuda::ptx {

/// Waits until `threads` threads have come to barrier `id`. 0 is __syncthreads'.
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace mok::cuda::ptx
