// SPDX-License-Identifier: Apache-2.0
// One pass, or one schedule, on all virtual ranks of a GPU, ready to be enqueued. Plain C++: whoever includes
// this needs no CUDA header. All pointers are device addresses unless they say otherwise; streams are
// cudaStream_t.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/pipeline/control.h"
#include "group/fault_plan.h"
#include "ops/rank_view.h"
#include "program/op.h"
#include "program/tables.h"

namespace mok::cuda {

/// Ranks that one launch can carry: their plans travel as kernel parameters, of which there are 32 KB.
inline constexpr int kMaxVirtualRanks = 8;

struct RankLaunch {
  ops::RankView view;
  std::int64_t num_tokens = 0;
  LocalControl control;
};

struct PassLaunch {
  program::Pass pass = program::Pass::forward;
  std::vector<RankLaunch> ranks;
  int comm_ctas = 0;  ///< per rank; 0 = chosen for the shape
  double arrival_deadline_seconds = 600;
  double progress_deadline_seconds = 30;
  HostStatus* status = nullptr;  ///< device address of pinned host memory
  Timeline timeline;
  group::FaultPlan faults;
  bool staged = false;  ///< one launch per op and macrobatch: the same tasks, with a barrier between ops
  bool multiply_only = false;  ///< for measuring: loads and products, nothing else; outputs are undefined
  void* stream = nullptr;
};

/// Enqueues a pass. \throws mok::Error when CUDA refuses.
void enqueue_pass(const PassLaunch& launch);

/// Ids of one rank and the scratch of the build.
struct RankRouting {
  const void* topk_experts = nullptr;  ///< int32 or int64 [T,K], the caller's
  bool is_int64 = false;
  std::int64_t num_tokens = 0;
  std::int32_t* gathered = nullptr;     ///< [R,Tmax,K]
  std::int32_t* histogram = nullptr;    ///< [R,E]
  std::int32_t* expert_tile = nullptr;  ///< [E]
  std::byte* scratch = nullptr;         ///< schedule_scratch_bytes() bytes
};

struct ScheduleLaunch {
  std::vector<ops::RankView> ranks;  ///< dims, tables, symmetric, peers
  std::vector<RankRouting> routing;
  HostStatus* status = nullptr;
  void* stream = nullptr;
};

/// Bytes of scratch that a rank's schedule needs beside its tables.
std::int64_t schedule_scratch_bytes(const program::Dims& dims);

/// Enqueues the build of a schedule: bit-equal to program::build_schedule. \throws mok::Error
void enqueue_schedule(const ScheduleLaunch& launch);

/// Tiles that the kernels use for a layer.
program::TileShape tile_shape(const program::Dims& dims);

}  // namespace mok::cuda
