// SPDX-License-Identifier: Apache-2.0
// A warp that walks keys in order: 32 at a time, each lane one.
#pragma once

#include <cstdint>

#include "cuda/pipeline/tiles.h"

namespace mok::cuda::schedule {

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

/// The lanes of a warp that hold the same key. All lanes must ask.
struct SameKey {
  unsigned lanes;

  __device__ static SameKey of(std::int32_t key) { return {__match_any_sync(~0u, key)}; }
  __device__ int before() const { return __popc(lanes & ((1u << lane_id()) - 1)); }
  __device__ int count() const { return __popc(lanes); }
  __device__ bool leads() const { return before() == 0; }
};

/// The place of this lane's key among equal keys, in the order of the walk. `next` holds the next place of
/// every key and belongs to this warp alone. Negative keys have no place.
__device__ __forceinline__ std::int32_t take_place(std::int32_t* next, std::int32_t key) {
  const SameKey same = SameKey::of(key);
  std::int32_t place = -1;
  if (key >= 0) place = next[key] + same.before();
  __syncwarp();  // all have read before the first of them writes
  if (key >= 0 && same.leads()) next[key] = place + same.count();
  __syncwarp();  // before the next turn reads
  return place;
}

/// Calls visit(i, keys[i]) for `first` <= i < `end` in order, and visit(i, -1) for what lanes are left over
/// at the end. All lanes stay together.
template <class Visit>
__device__ __forceinline__ void walk(const std::int32_t* keys, std::int64_t first, std::int64_t end,
                                     const Visit& visit) {
  // Loads run ahead of visits, which write and would hold them up.
  constexpr int kAhead = 4;
  for (std::int64_t i = first + lane_id(); i - lane_id() < end; i += kAhead * kWarp) {
    std::int32_t ahead[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) ahead[a] = i + a * kWarp < end ? keys[i + a * kWarp] : -1;
#pragma unroll
    for (int a = 0; a < kAhead; ++a) visit(i + a * kWarp, ahead[a]);
  }
}

}  // namespace mok::cuda::schedule
