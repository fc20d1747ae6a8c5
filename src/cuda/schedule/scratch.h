// SPDX-License-Identifier: Apache-2.0
// How a schedule's build is cut among warps, and the memory that it needs beside the tables. The same on host
// and device.
#pragma once

#include <cstdint>

#include "cuda/pipeline/tiles.h"
#include "program/dims.h"
#include "program/layout.h"

namespace mok::cuda::schedule {

/// Tokens of a rank, cut into runs of consecutive ones. One warp walks a run in order and keeps a row of
/// counts, one per bin; prefix sums down the columns then tell each warp where its part of a bin begins, so
/// that every place follows from the ids alone and not from who came first.
struct Runs {
  std::int64_t tokens = kWarp;  ///< per run, a multiple of kWarp
  std::int64_t count = 1;       ///< per rank

  /// Enough warps for every SM to have some. More would only lengthen the columns.
  static constexpr std::int64_t kMostWarps = 2048;
  /// Bounds the memory of a rank's counts: 16 MB. Many bins make fewer and longer runs.
  static constexpr std::int64_t kMostCounts = std::int64_t{1} << 22;
  /// Keys of the shortest run: below this, zeroing the row costs more than the walk.
  static constexpr std::int64_t kFewestKeys = 128;

  /// \param keys per token \param bins values that a key can take \param sources ranks whose tokens each
  /// rank walks
  MOK_HOST_DEVICE static constexpr Runs make(std::int64_t max_tokens, std::int64_t keys, std::int64_t bins,
                                             std::int64_t sources) {
    const std::int64_t by_memory = program::max<std::int64_t>(1, kMostCounts / (sources * bins));
    const std::int64_t most = program::min(kMostWarps / sources, by_memory);
    const std::int64_t groups =
        program::max(program::ceil_div(program::ceil_div<std::int64_t>(max_tokens, kWarp), most),
                     program::ceil_div<std::int64_t>(kFewestKeys, kWarp * keys));
    const std::int64_t tokens = groups * kWarp;
    return {tokens, program::ceil_div(max_tokens, tokens)};
  }

  /// Runs over the routes of all ranks; bins are experts.
  MOK_HOST_DEVICE static constexpr Runs of_routes(const program::Dims& dims) {
    return make(dims.max_tokens, dims.topk, dims.experts, dims.ranks);
  }
  /// Runs over this rank's tokens; bins are steps. A token is little work, so runs may be short.
  MOK_HOST_DEVICE static constexpr Runs of_tokens(const program::Dims& dims) {
    return make(dims.max_tokens, kFewestKeys / kWarp, dims.max_steps() + 1, 2);
  }
};

/// Tables of sums: one for forward, one for backward.
inline constexpr int kSumTables = 2;

/// Who counts the CTAs that are through with something; the last one goes on alone.
enum Arrival { rows_scanned, needs_scanned, end = needs_scanned + kSumTables, kNumArrivals };

/// A rank's scratch.
struct ScratchLayout {
  program::Field<std::uint32_t> arrivals;        ///< [kNumArrivals]
  program::Field<unsigned long long> first_bad;  ///< [1] first route whose id is out of range, or kNoRoute
  program::Field<std::int32_t> counts;           ///< [R*runs,E] routes per run, then those of earlier runs
  program::Field<std::int32_t> route_rows;       ///< [Tmax,K] row of this rank's routes within their expert
  program::Field<std::int32_t> needs;            ///< [2,Tmax] steps after which a token can be summed
  program::Field<std::int32_t> need_counts;      ///< [2,runs,steps+1] as counts
  program::Field<std::int32_t> need_first;       ///< [2,steps+1] tokens per need, then those of lower needs
  std::int64_t bytes = 0;

  static constexpr unsigned long long kNoRoute = ~0ull;

  template <class Self, class Visitor>
  MOK_HOST_DEVICE static constexpr void visit(Self& self, const program::Dims& d, Visitor&& visitor) {
    const std::int64_t bins = d.max_steps() + 1;
    visitor("arrivals", self.arrivals, kNumArrivals);
    visitor("first bad id", self.first_bad, 1);
    visitor("counts [R*runs,E]", self.counts, d.ranks * Runs::of_routes(d).count * d.experts);
    visitor("row of each route [Tmax,K]", self.route_rows, d.slots());
    visitor("need of each token [2,Tmax]", self.needs, kSumTables * d.max_tokens);
    visitor("tokens per run and need [2,runs,steps+1]", self.need_counts,
            kSumTables * Runs::of_tokens(d).count * bins);
    visitor("tokens per need [2,steps+1]", self.need_first, kSumTables * bins);
  }
};

}  // namespace mok::cuda::schedule
