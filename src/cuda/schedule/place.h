// SPDX-License-Identifier: Apache-2.0
// Where every expert begins at its owner, and whether the schedule can be run at all. One CTA per rank.
#pragma once

#include <cstdint>

#include "cuda/schedule/block.h"
#include "cuda/schedule/build.h"

namespace mok::cuda::schedule {

/// Tiles and rows in one word, so that one scan sums both: all rows fit 31 bits.
struct TilesAndRows {
  std::uint64_t word = 0;

  __device__ static TilesAndRows of_expert(std::int32_t rows) {
    const auto tiles = static_cast<std::uint64_t>(program::ceil_div<std::int64_t>(rows, program::kRowTile));
    return {tiles << 32 | static_cast<std::uint32_t>(rows)};
  }
  __device__ std::int32_t tiles() const { return static_cast<std::int32_t>(word >> 32); }
  __device__ std::int32_t rows() const { return static_cast<std::int32_t>(word & 0xFFFFFFFFu); }
};

/// What the CTA's threads share.
struct Placement {
  TilesAndRows before_rank[kMaxVirtualRanks + 1];
  unsigned long long fullest;  ///< (rows, complement of the expert): the first of the fullest is the largest
  program::ScheduleHeader header;

  __device__ std::int64_t rows_of(int rank) const {
    return before_rank[rank + 1].rows() - before_rank[rank].rows();
  }
  __device__ std::int64_t tiles_of(int rank) const {
    return before_rank[rank + 1].tiles() - before_rank[rank].tiles();
  }
};

/// Rows of every expert, over all sources.
__device__ __forceinline__ std::int32_t* expert_rows(const RankBuild& build) {
  return build.routing.histogram;
}

/// Sums tiles and rows along all experts; expert_tile counts from the first expert of rank 0 for now.
__device__ __forceinline__ void sum_experts(const RankBuild& build, Placement& placement) {
  const program::Dims& dims = build.dims;
  TilesAndRows total;
  for (std::int32_t base = 0; base < dims.experts; base += kScanThreads) {
    const std::int32_t expert = base + static_cast<std::int32_t>(threadIdx.x);
    const bool exists = expert < dims.experts;
    const auto own = TilesAndRows::of_expert(exists ? expert_rows(build)[expert] : 0);
    const TilesAndRows before{exclusive_scan(own.word, total.word)};
    if (!exists) continue;
    build.routing.expert_tile[expert] = before.tiles();
    if (expert % dims.local_experts() == 0) placement.before_rank[expert / dims.local_experts()] = before;
  }
  if (threadIdx.x == 0) placement.before_rank[dims.ranks] = total;
}

/// The refusal for an id out of range, if there is one. One thread.
__device__ __forceinline__ void judge_ids(const RankBuild& build, program::ScheduleHeader& header) {
  const unsigned long long route = *build.first_bad;
  if (route == ScratchLayout::kNoRoute) return;
  const auto at = static_cast<std::int64_t>(route);
  const std::int64_t slot = at % build.dims.slots();
  header.refusal = program::Refusal::expert_id_out_of_range;
  header.refusal_rank = static_cast<std::int32_t>(at / build.dims.slots());
  header.refusal_expert = build.routing.gathered[at];
  header.refusal_token = slot / build.dims.topk;
  header.refusal_choice = static_cast<std::int32_t>(slot % build.dims.topk);
}

/// The refusal for too many rows: the fullest rank. One thread.
__device__ __forceinline__ void judge_rows(const RankBuild& build, const Placement& placement,
                                           program::ScheduleHeader& header) {
  for (int rank = 0; rank < build.dims.ranks; ++rank) {
    const std::int64_t rows = placement.rows_of(rank);
    if (rows <= build.dims.routed_capacity || rows <= header.refusal_rows) continue;
    header.refusal = program::Refusal::capacity_overflow;
    header.refusal_rank = rank;
    header.refusal_rows = rows;
  }
}

/// Names the fullest expert of the rank that overflowed. Whole CTA.
__device__ __forceinline__ void find_fullest(const RankBuild& build, Placement& placement) {
  const std::int32_t first = placement.header.refusal_rank * build.dims.local_experts();
  for (std::int32_t local = static_cast<std::int32_t>(threadIdx.x); local < build.dims.local_experts();
       local += kScanThreads) {
    const auto expert = static_cast<std::uint32_t>(first + local);
    const auto rows = static_cast<unsigned long long>(expert_rows(build)[expert]);
    atomicMax(&placement.fullest, rows << 32 | static_cast<std::uint32_t>(~expert));
  }
  __syncthreads();  // all experts were compared
  if (threadIdx.x == 0) {
    placement.header.refusal_expert =
        static_cast<std::int32_t>(~static_cast<std::uint32_t>(placement.fullest));
  }
}

/// The tables of experts, now that the schedule is accepted. Whole CTA.
__device__ __forceinline__ void write_experts(const RankBuild& build, Placement& placement) {
  const program::Dims& dims = build.dims;
  for (std::int32_t expert = static_cast<std::int32_t>(threadIdx.x); expert < dims.experts;
       expert += kScanThreads) {
    const std::int32_t owner = expert / dims.local_experts();
    const std::int32_t tile = build.routing.expert_tile[expert] - placement.before_rank[owner].tiles();
    build.routing.expert_tile[expert] = tile;
    if (owner != dims.rank) continue;
    const std::int32_t local = expert - owner * dims.local_experts();
    build.tables.rows_per_expert[local] = expert_rows(build)[expert];
    build.tables.first_tile[local] = tile;
  }
  if (threadIdx.x != 0) return;
  program::ScheduleHeader& header = placement.header;
  header.num_tiles = placement.tiles_of(dims.rank);
  build.tables.first_tile[dims.local_experts()] = static_cast<std::int32_t>(header.num_tiles);
  for (int rank = 0; rank < dims.ranks; ++rank) {
    const std::int64_t tiles = placement.tiles_of(rank);
    build.tables.rank_tiles[rank] = tiles;
    header.max_steps = program::max(header.max_steps, program::ceil_div(tiles, dims.minibatch_tiles));
  }
}

/// Places all experts or refuses. Every rank does this for all ranks, so that all decide alike without a
/// message.
__device__ __forceinline__ void place_experts(const RankBuild& build) {
  __shared__ Placement placement;
  sum_experts(build, placement);
  __syncthreads();  // before_rank is complete
  if (threadIdx.x == 0) {
    program::ScheduleHeader header;
    header.num_tokens = build.routing.num_tokens;
    judge_ids(build, header);
    if (header.refusal == program::Refusal::none) judge_rows(build, placement, header);
    placement.header = header;
    placement.fullest = 0;
  }
  __syncthreads();  // the judgement stands
  const program::Refusal refusal = placement.header.refusal;
  if (refusal == program::Refusal::none) write_experts(build, placement);
  if (refusal == program::Refusal::capacity_overflow) find_fullest(build, placement);
  if (threadIdx.x == 0) *build.tables.header = placement.header;
}

}  // namespace mok::cuda::schedule
