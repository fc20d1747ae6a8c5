// SPDX-License-Identifier: Apache-2.0
// The walks over the routes of all ranks: one counts them, the other gives each its row.
#pragma once

#include <cstdint>

#include "cuda/schedule/build.h"
#include "cuda/schedule/stage.h"
#include "cuda/schedule/warp.h"
#include "program/order.h"
#include "program/steps.h"

namespace mok::cuda::schedule {

/// One warp's part of the routes, by the warp's number among the rank's.
struct RouteRun {
  std::int32_t source;      ///< rank whose routes they are
  std::int64_t first, end;  ///< slots there
  std::int64_t first_token, end_token;
  std::int32_t* counts;  ///< [E] the run's row

  __device__ static RouteRun make(const RankBuild& build, std::int64_t number) {
    const std::int64_t token = number % build.runs.count * build.runs.tokens;
    const std::int64_t end_token = program::min(token + build.runs.tokens, build.dims.max_tokens);
    return {static_cast<std::int32_t>(number / build.runs.count),
            token * build.dims.topk,
            end_token * build.dims.topk,
            token,
            end_token,
            build.counts + number * build.dims.experts};
  }
};

/// Routes per expert of a run; the first id out of range, of all ranks, ends up in first_bad.
__device__ __forceinline__ void count_routes(const RankBuild& build, const RouteRun& run) {
  const program::Dims& dims = build.dims;
  for (std::int32_t e = lane_id(); e < dims.experts; e += kWarp) run.counts[e] = 0;
  __syncwarp();  // other lanes count where this one cleared
  const std::int64_t base = run.source * dims.slots();
  const std::int32_t* const ids = build.symmetric.topk_experts.at(build.peers[run.source]);
  walk(ids, run.first, run.end, [&](std::int64_t slot, std::int32_t id) {
    if (slot < run.end) build.routing.gathered[base + slot] = id;
    const bool is_expert = id >= 0 && id < dims.experts;
    if (id != -1 && !is_expert) atomicMin(build.first_bad, static_cast<unsigned long long>(base + slot));
    const SameKey same = SameKey::of(is_expert ? id : -1);
    if (is_expert && same.leads()) atomicAdd(run.counts + id, same.count());
  });
}

/// Writes the rows that this rank's experts get from a run; of this rank's own routes also where they stand
/// at their owners.
__device__ __forceinline__ void fill_rows(const RankBuild& build, const RouteRun& run) {
  const program::Dims& dims = build.dims;
  const std::int32_t first_expert = dims.rank * dims.local_experts();
  const bool is_own = run.source == dims.rank;
  const std::int32_t* const ids = build.routing.gathered + run.source * dims.slots();
  walk(ids, run.first, run.end, [&](std::int64_t slot, std::int32_t id) {
    const bool is_local = id >= first_expert && id < first_expert + dims.local_experts();
    const std::int32_t row = take_place(run.counts, is_local || is_own ? id : -1);
    if (is_local) {
      const std::int64_t at = build.routing.expert_tile[id] * program::kRowTile + row;
      build.tables.source_rank[at] = run.source;
      build.tables.source_slot[at] = static_cast<std::int32_t>(slot);
    }
    if (is_own && slot < run.end) build.route_rows[slot] = row;
  });
}

/// Steps, over all owners, after which every route of a token is in its slot; in both passes.
struct Needs {
  std::int64_t of[kSumTables] = {};

  __device__ void include(const RankBuild& build, std::int32_t id, std::int32_t row) {
    const std::int64_t tiles = build.tables.rank_tiles[id / build.dims.local_experts()];
    const std::int64_t tile = build.routing.expert_tile[id] + row / program::kRowTile;
    for (const program::Pass pass : {program::Pass::forward, program::Pass::backward}) {
      const auto steps = program::Steps::make(build.dims, tiles, pass);
      std::int64_t& need = of[program::sum_table(pass)];
      need = program::max(need, steps.step_of_tile(tile) + 1);
    }
  }
};

/// Of this rank's tokens in a run of its own, behind fill_rows(): how many steps each needs, and how many
/// tokens of each token run need as many.
__device__ __forceinline__ void count_needs(const RankBuild& build, const RouteRun& run) {
  __syncwarp();  // other lanes wrote the rows
  for (std::int64_t group = run.first_token; group < run.end_token; group += kWarp) {
    const std::int64_t token = group + lane_id();
    const bool exists = token < build.routing.num_tokens;
    Needs needs;
    for (std::int32_t k = 0; exists && k < build.dims.topk; ++k) {
      const std::int64_t slot = token * build.dims.topk + k;
      const std::int32_t id = build.tables.topk_experts[slot];
      if (id >= 0) needs.include(build, id, build.route_rows[slot]);
    }
    for (int table = 0; table < kSumTables; ++table) {
      const auto need = static_cast<std::int32_t>(needs.of[table]);
      if (exists) build.needs_of(table)[token] = need;
      const SameKey same = SameKey::of(exists ? need : -1);
      if (!exists || !same.leads()) continue;
      // A group never crosses token runs: both lengths are multiples of a warp.
      std::int32_t* const row = build.need_counts_of(table) + group / build.token_runs.tokens * build.bins();
      atomicAdd(row + need, same.count());
    }
    __syncwarp();
  }
}

/// Which expert each tile of this rank belongs to.
__device__ __forceinline__ void name_tiles(const RankBuild& build, const Share& share) {
  const program::detail::OrderBuilder order{build.dims, build.tables, program::Pass::backward};
  for (std::int64_t tile = share.first; tile < build.tables.header->num_tiles; tile += share.stride) {
    build.tables.tile_expert[tile] = order.first_expert_past(tile);
  }
}

}  // namespace mok::cuda::schedule
