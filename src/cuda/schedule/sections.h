// SPDX-License-Identifier: Apache-2.0
// The stretches of a pass, by one CTA: each thread builds a section of the order alone, once it knows what
// stands before it.
#pragma once

#include <cstdint>

#include "cuda/schedule/build.h"
#include "cuda/schedule/warp.h"
#include "program/order.h"

namespace mok::cuda::schedule {

inline constexpr int kSectionThreads = 256;

/// What stands before each section: of both roles, stretches and units of every op. First what a section
/// itself adds, then the sums.
struct SectionSums {
  static constexpr int kPerRole = 1 + program::kNumOps;
  static constexpr int kCounts = program::kNumRoles * kPerRole;
  static constexpr int kPerLane = kSectionThreads / kWarp;

  std::int32_t before[kCounts][kSectionThreads];
  std::int32_t total[kCounts];  ///< over the sections so far

  __device__ void set(program::Role role, const program::detail::OrderWriter& writer) {
    std::int32_t(*const rows)[kSectionThreads] = before + static_cast<int>(role) * kPerRole;
    rows[0][threadIdx.x] = writer.count;
#pragma unroll
    for (int op = 0; op < program::kNumOps; ++op) rows[1 + op][threadIdx.x] = writer.units[op];
  }
  __device__ void get(program::Role role, program::detail::OrderWriter& writer) const {
    const std::int32_t(*const rows)[kSectionThreads] = before + static_cast<int>(role) * kPerRole;
    writer.count = rows[0][threadIdx.x];
#pragma unroll
    for (int op = 0; op < program::kNumOps; ++op) writer.units[op] = rows[1 + op][threadIdx.x];
  }
  /// Sums one count along the threads. One warp; each lane takes kPerLane threads.
  __device__ void scan(int which) {
    std::int32_t* const mine = before[which] + lane_id() * kPerLane;
    std::int32_t own = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) own += mine[i];
    std::int32_t inclusive = own;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::int32_t lower = __shfl_up_sync(~0u, inclusive, static_cast<unsigned>(distance));
      if (lane_id() >= distance) inclusive += lower;
    }
    std::int32_t sum = total[which] + inclusive - own;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const std::int32_t count = mine[i];
      mine[i] = sum;
      sum += count;
    }
    __syncwarp();  // all lanes have read the total
    if (lane_id() == kWarp - 1) total[which] = sum;
    __syncwarp();
  }
};

/// Builds the lists of one pass. Whole CTA.
__device__ __forceinline__ void build_sections(const RankBuild& build, program::Pass pass) {
  using program::Role;
  using Builder = program::detail::OrderBuilder;
  __shared__ SectionSums sums;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < SectionSums::kCounts) sums.total[thread] = 0;
  const std::int64_t sections = Builder{build.dims, build.tables, pass}.sections();
  for (std::int64_t base = 0; base < sections; base += kSectionThreads) {
    const std::int64_t index = base + thread;
    {
      Builder counting{build.dims, build.tables, pass};
      if (index < sections) counting.section(index);
      sums.set(Role::compute, counting.compute);
      sums.set(Role::communication, counting.communication);
    }
    __syncthreads();  // all sections are counted
    for (int which = warp_id(); which < SectionSums::kCounts; which += kSectionThreads / kWarp) {
      sums.scan(which);
    }
    __syncthreads();  // all sums stand; each thread reads its own, and writes no other's in the next round
    if (index >= sections) continue;
    Builder writing{build.dims, build.tables, pass};
    sums.get(Role::compute, writing.compute);
    sums.get(Role::communication, writing.communication);
    writing.compute.out = build.tables.stretches[static_cast<int>(pass)][static_cast<int>(Role::compute)];
    writing.communication.out =
        build.tables.stretches[static_cast<int>(pass)][static_cast<int>(Role::communication)];
    writing.section(index);
  }
  __syncthreads();  // the totals stand
  if (thread < program::kNumRoles) {
    build.tables.header->num_stretches[static_cast<int>(pass)][thread] =
        sums.total[thread * SectionSums::kPerRole];
  }
}

}  // namespace mok::cuda::schedule
