// SPDX-License-Identifier: Apache-2.0
// What the kernels of a schedule's build are given: one record per virtual rank, as kernel parameters. No
// value changes from call to call but the caller's pointers and T, so that a captured graph replays rightly.
#pragma once

#include <cstdint>

#include "cuda/host/launch.h"
#include "cuda/schedule/scratch.h"
#include "program/layout.h"
#include "program/tables.h"

namespace mok::cuda::schedule {

struct RankBuild {
  program::Dims dims;
  program::ScheduleTables tables;
  program::SymmetricLayout symmetric;
  std::byte* const* peers = nullptr;
  RankRouting routing;
  Runs runs;        ///< of routes
  Runs token_runs;  ///< of tokens, for the order of the sums

  // The scratch, by address.
  std::uint32_t* arrivals = nullptr;
  unsigned long long* first_bad = nullptr;
  std::int32_t* counts = nullptr;
  std::int32_t* route_rows = nullptr;
  std::int32_t* needs = nullptr;
  std::int32_t* need_counts = nullptr;
  std::int32_t* need_first = nullptr;

  MOK_HOST_DEVICE std::byte* mine() const { return peers[dims.rank]; }
  /// Bins of the sort of tokens that memory is made for: 0 to the most steps that there can be.
  MOK_HOST_DEVICE std::int64_t bins() const { return dims.max_steps() + 1; }
  MOK_HOST_DEVICE std::int32_t* needs_of(int table) const { return needs + table * dims.max_tokens; }
  MOK_HOST_DEVICE std::int32_t* need_counts_of(int table) const {
    return need_counts + table * token_runs.count * bins();
  }
  MOK_HOST_DEVICE std::int32_t* need_first_of(int table) const { return need_first + table * bins(); }
};

struct BuildParams {
  RankBuild ranks[kMaxVirtualRanks];
  HostStatus* status = nullptr;
};

}  // namespace mok::cuda::schedule
