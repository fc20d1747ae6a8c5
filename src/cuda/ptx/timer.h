// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

/// Nanoseconds of a clock that all SMs share.
__device__ __forceinline__ std::uint64_t globaltimer() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ std::uint32_t smid() {
  std::uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

}  // namespace mok::cuda::ptx
