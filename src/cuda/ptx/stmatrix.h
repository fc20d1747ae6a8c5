// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

/// Four 8x8 matrices of 16-bit elements from the registers of a warp to shared memory; lane i brings the
/// address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void stmatrix_x4(std::uint32_t shared_address, std::uint32_t r0, std::uint32_t r1,
                                            std::uint32_t r2, std::uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

}  // namespace mok::cuda::ptx
