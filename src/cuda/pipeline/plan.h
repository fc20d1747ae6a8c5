// SPDX-License-Identifier: Apache-2.0
// Everything that a launch brings to the kernel: one plan per virtual rank, as kernel parameters. No value in
// it changes from call to call but the caller's pointers, so that a captured graph replays rightly: epoch,
// counter set and tickets live in device memory.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "cuda/pipeline/control.h"
#include "ops/rank_view.h"

namespace mok::cuda {

/// Operands of one GEMM pair: A is rows by K, B is columns of the result by K; both K-major.
struct ExpertMaps {
  CUtensorMap x;       ///< A of gate_up
  CUtensorMap gate;    ///< [experts, I, H], boxes of 128 rows
  CUtensorMap up;      ///< [experts, I, H], boxes of 128 rows
  CUtensorMap hidden;  ///< A of down
  CUtensorMap down;    ///< [experts, H, I], boxes of 256 rows
};

struct RankPlan {
  ExpertMaps routed;
  ExpertMaps shared;  ///< undefined where there is no shared expert
  ops::RankView view;
  LocalControl control;
};

/// Which tasks a launch runs: all, or those of one op and macrobatch (staged).
struct StageFilter {
  std::int32_t op = -1;  ///< program::Op; -1 = all
  std::int32_t macrobatch = -1;
  bool is_first = true;
  bool is_last = true;
};

/// Ranks that one launch can carry: their plans are kernel parameters, of which there are 32 KB.
inline constexpr int kMaxPlans = 8;

struct LaunchParams {
  RankPlan plans[kMaxPlans];
  std::int32_t ranks = 1;  ///< in this launch
  std::int32_t ctas_per_rank = 0;
  std::int32_t comm_ctas = 1;  ///< per rank
  std::int32_t never_ready_rank = -1;
  std::int32_t stuck_rank = -1;
  std::int64_t stuck_after = 0;
  std::uint64_t arrival_deadline_ns = 0;   ///< 0 = never
  std::uint64_t progress_deadline_ns = 0;  ///< 0 = never
  HostStatus* status = nullptr;
  Timeline timeline;
  StageFilter stage;
  bool multiply_only = false;  ///< multiplies and does nothing else: for measuring
};

}  // namespace mok::cuda
