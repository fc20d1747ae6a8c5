// SPDX-License-Identifier: Apache-2.0
// First launch: the caller's ids go into symmetric memory, and every table becomes empty.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/schedule/build.h"

namespace mok::cuda::schedule {

/// Element i, i + stride, ... of an array, for one of the threads that share it.
struct Share {
  std::int64_t first;
  std::int64_t stride;

  __device__ static Share of_grid() {
    return {static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
            static_cast<std::int64_t>(gridDim.x) * blockDim.x};
  }
  template <class T>
  __device__ void fill(T* out, std::int64_t count, T value) const {
    for (std::int64_t i = first; i < count; i += stride) out[i] = value;
  }
};

/// Ids outside int32 are out of any expert's range: they stay so as int32's lowest value.
__device__ __forceinline__ std::int32_t read_id(const RankRouting& routing, std::int64_t i) {
  if (!routing.is_int64) return static_cast<const std::int32_t*>(routing.topk_experts)[i];
  const std::int64_t id = static_cast<const std::int64_t*>(routing.topk_experts)[i];
  const auto narrow = static_cast<std::int32_t>(id);
  return narrow == id ? narrow : std::numeric_limits<std::int32_t>::min();
}

__device__ __forceinline__ void stage_ids(const RankBuild& build, const Share& share) {
  std::int32_t* const staged = build.symmetric.topk_experts.at(build.mine());
  const std::int64_t ids = build.routing.num_tokens * build.dims.topk;
  for (std::int64_t i = share.first; i < build.dims.slots(); i += share.stride) {
    const std::int32_t id = i < ids ? read_id(build.routing, i) : -1;
    staged[i] = id;
    build.tables.topk_experts[i] = id;
  }
}

__device__ __forceinline__ void clear_tables(const RankBuild& build, const Share& share) {
  const program::Dims& dims = build.dims;
  const program::ScheduleTables& tables = build.tables;
  share.fill(tables.source_rank, dims.capacity_rows(), -1);
  share.fill(tables.source_slot, dims.capacity_rows(), -1);
  share.fill(tables.tile_expert, dims.capacity_tiles(), -1);
  for (int table = 0; table < kSumTables; ++table) {
    share.fill(tables.token_order[table], dims.max_tokens, -1);
    share.fill(tables.sum_begin[table], build.bins(), 0);
  }
  share.fill<std::int32_t>(tables.rows_per_expert, dims.local_experts(), 0);
  share.fill<std::int32_t>(tables.first_tile, dims.local_experts() + 1, 0);
  share.fill<std::int64_t>(tables.rank_tiles, dims.ranks, 0);
}

__device__ __forceinline__ void clear_scratch(const RankBuild& build, const Share& share) {
  share.fill<std::uint32_t>(build.arrivals, kNumArrivals, 0);
  share.fill(build.first_bad, 1, ScratchLayout::kNoRoute);
  share.fill(build.need_counts, kSumTables * build.token_runs.count * build.bins(), 0);
}

}  // namespace mok::cuda::schedule
