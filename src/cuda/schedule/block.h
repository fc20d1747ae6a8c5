// SPDX-License-Identifier: Apache-2.0
// Prefix sums of a CTA, and the CTA that goes on alone behind all others.
#pragma once

#include <cstdint>

#include "cuda/pipeline/flags.h"
#include "cuda/schedule/warp.h"
#include "program/dims.h"

namespace mok::cuda::schedule {

/// Threads of a CTA that sums: a square of warps and lanes.
inline constexpr int kScanThreads = kWarp * kWarp;

/// A matrix of counts: a row per run, in order, and a column per bin.
struct Counts {
  std::int32_t* data;
  std::int64_t rows;
  std::int64_t columns;  ///< in use
  std::int64_t pitch;    ///< columns that there is memory for
};

/// Replaces each count by the sum of those above it and writes each column's sum. A CTA of kScanThreads takes
/// kWarp columns from `first` on: a lane per column, a warp per stretch of rows.
__device__ __forceinline__ void scan_columns(const Counts& counts, std::int64_t first, std::int32_t* totals) {
  __shared__ std::int32_t sums[kWarp][kWarp];
  constexpr int kAhead = 8;
  const std::int64_t column = first + lane_id();
  const std::int64_t height = program::ceil_div<std::int64_t>(counts.rows, kWarp);
  const std::int64_t begin = warp_id() * height;
  const std::int64_t end = column < counts.columns ? program::min(begin + height, counts.rows) : begin;
  std::int32_t* const cells = counts.data + column;
  std::int32_t sum = 0;
#pragma unroll 8
  for (std::int64_t row = begin; row < end; ++row) sum += cells[row * counts.pitch];
  sums[warp_id()][lane_id()] = sum;
  __syncthreads();  // all stretches are summed
  std::int32_t above = 0;
  for (int warp = 0; warp < warp_id(); ++warp) above += sums[warp][lane_id()];
  for (std::int64_t row = begin; row < end; row += kAhead) {
    // Loads first: a load behind a store to the same matrix would wait for it.
    std::int32_t ahead[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) ahead[a] = row + a < end ? cells[(row + a) * counts.pitch] : 0;
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (row + a < end) cells[(row + a) * counts.pitch] = above;
      above += ahead[a];
    }
  }
  if (warp_id() == kWarp - 1 && column < counts.columns) totals[column] = above;
}

/// The sum of what lower threads hold, plus `carry`, which grows by the sum of all. Whole CTA.
__device__ __forceinline__ std::uint64_t exclusive_scan(std::uint64_t value, std::uint64_t& carry) {
  __shared__ std::uint64_t sums[kWarp];
  std::uint64_t inclusive = value;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::uint64_t lower = __shfl_up_sync(~0u, inclusive, static_cast<unsigned>(distance));
    if (lane_id() >= distance) inclusive += lower;
  }
  if (lane_id() == kWarp - 1) sums[warp_id()] = inclusive;
  __syncthreads();  // all warps are summed
  std::uint64_t before = carry;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
    if (warp < warp_id()) before += sums[warp];
    carry += sums[warp];
  }
  __syncthreads();  // all have read: the next scan may write
  return before + inclusive - value;
}

/// True, for all threads, in the CTA that is the last of `expected` to come here; it sees what the others
/// wrote. At most once per kernel.
__device__ __forceinline__ bool arrives_last(std::uint32_t& arrivals, std::int64_t expected) {
  __shared__ bool is_last;
  __syncthreads();  // the CTA's writes are before its arrival
  if (threadIdx.x == 0) {
    const std::uint32_t before =
        DeviceWord<std::uint32_t>(arrivals).fetch_add(1, ::cuda::memory_order_acq_rel);
    is_last = before + 1 == expected;
  }
  __syncthreads();  // is_last is written, and what others wrote is seen
  return is_last;
}

}  // namespace mok::cuda::schedule
