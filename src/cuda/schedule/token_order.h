// SPDX-License-Identifier: Apache-2.0
// The order in which tokens are summed: a stable counting sort by the steps that they need.
#pragma once

#include <cstdint>

#include "cuda/schedule/block.h"
#include "cuda/schedule/build.h"
#include "cuda/schedule/warp.h"
#include "program/dims.h"

namespace mok::cuda::schedule {

/// First place of every need, and how many groups of tokens can be summed after each step. Whole CTA.
__device__ __forceinline__ void place_needs(const RankBuild& build, int table) {
  const std::int64_t steps = build.tables.header->max_steps;
  std::int32_t* const first_place = build.need_first_of(table);
  std::int32_t* const sum_begin = build.tables.sum_begin[table];
  std::uint64_t total = 0;
  for (std::int64_t base = 0; base <= steps; base += kScanThreads) {
    const std::int64_t need = base + threadIdx.x;
    const std::int32_t tokens = need <= steps ? first_place[need] : 0;
    const auto first = static_cast<std::int32_t>(exclusive_scan(static_cast<std::uint64_t>(tokens), total));
    if (need > steps) continue;
    first_place[need] = first;
    const auto groups = static_cast<std::int32_t>((first + tokens) / program::kSumTokens);
    sum_begin[need] = need == 0 ? 0 : groups;  // tokens without routes wait for the first step
    if (need == steps) {
      sum_begin[need] =
          static_cast<std::int32_t>(program::ceil_div(build.routing.num_tokens, program::kSumTokens));
    }
  }
}

/// Writes the tokens of one run to their places. One warp.
__device__ __forceinline__ void order_tokens(const RankBuild& build, int table, std::int64_t run) {
  const std::int64_t first = run * build.token_runs.tokens;
  const std::int64_t end = program::min(first + build.token_runs.tokens, build.routing.num_tokens);
  std::int32_t* const earlier = build.need_counts_of(table) + run * build.bins();
  const std::int32_t* const first_place = build.need_first_of(table);
  std::int32_t* const order = build.tables.token_order[table];
  walk(build.needs_of(table), first, end, [&](std::int64_t token, std::int32_t need) {
    const std::int32_t place = take_place(earlier, need);
    if (need >= 0) order[first_place[need] + place] = static_cast<std::int32_t>(token);
  });
}

}  // namespace mok::cuda::schedule
