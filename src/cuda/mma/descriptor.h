// SPDX-License-Identifier: Apache-2.0
// Shared-memory matrix descriptors of wgmma, for tiles that TMA has written with the 128-byte swizzle.
#pragma once

#include <cstdint>

namespace mok::cuda {

/// Both operand tiles are rows of 128 bytes (64 bf16), in groups of 8 rows of 1024 bytes; K-major.
/// Fields (PTX ISA, "Matrix descriptor"): start address / 16 in bits 0-13, leading-dimension offset / 16 in
/// bits 16-29 (unused by swizzled K-major operands, 1 by convention), stride-dimension offset / 16 in bits
/// 32-45 (from one group of 8 rows to the next), swizzle mode in bits 62-63 (1 = 128 bytes).
__device__ __forceinline__ std::uint64_t k_major_descriptor(std::uint32_t shared_address) {
  return static_cast<std::uint64_t>((shared_address & 0x3FFFF) >> 4) | (std::uint64_t{1} << 16) |
         (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 62);
}

/// Bytes from one k = 16 slice of a K-major tile to the next.
inline constexpr std::uint32_t kKMajorStep = 32;

}  // namespace mok::cuda
