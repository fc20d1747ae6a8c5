// SPDX-License-Identifier: Apache-2.0
// One pass, or one schedule, on all virtual ranks of a GPU, ready to be enqueued. Plain C++: whoever includes
// this needs no CUDA header. All pointers are device addresses unless they say otherwise; streams are
// cudaStream_t.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "group/fault_plan.h"
#include "ops/rank_view.h"
#include "program/op.h"
#include "program/tables.h"

namespace mok::cuda {

/// Ranks that one launch can carry: their plans travel as kernel parameters, of which there are 32 KB.
inline constexpr int kMaxVirtualRanks = 8;

/// Control words of one rank's local memory (LocalLayout).
struct LocalControl {
  std::uint32_t* counters = nullptr;     ///< two sets; which one is used is told by counter_set
  std::uint32_t* counter_set = nullptr;  ///< [1] 0 or 1, the set of the next pass
  std::uint64_t* tickets = nullptr;      ///< [kNumRoles]
  std::uint32_t* published = nullptr;    ///< [1] steps published so far
  std::uint32_t* arrivals = nullptr;     ///< [2] CTAs of a launch that have begun (rank 0's counts for all), that have ended
};

struct RankLaunch {
  ops::RankView view;
  LocalControl control;
};

/// What the first wait that ran into its deadline was for; written by the GPU into pinned host memory.
struct FailureRecord {
  std::uint32_t raised = 0;  ///< 1 once the rest is complete
  std::uint32_t claimed = 0;
  std::uint64_t epoch = 0;
  std::int32_t rank = -1;
  std::int32_t cta = -1;
  std::int32_t role = 0;           ///< program::Role
  std::int32_t op = -1;            ///< program::Op; -1 = start of the pass, -2 = end of the pass
  std::int64_t tile = -1;
  std::int64_t counter = -1;       ///< index in the counter set; -1 = a flag of `peer`
  std::int32_t peer = -1;
  std::int32_t is_arrival = 0;     ///< which of the two deadlines
  std::uint64_t expected = 0;
  std::uint64_t seen = 0;
};

/// What a workspace's GPU tells the host without being asked: pinned host memory, mapped into the GPU.
struct HostStatus {
  FailureRecord failure;
  program::ScheduleHeader schedule;  ///< header of the last schedule of rank 0
};

/// One thing that happened inside a kernel.
struct TimelineRecord {
  std::uint64_t begin_ns = 0;  ///< %globaltimer
  std::uint64_t end_ns = 0;
  std::int64_t tile = 0;
  std::int64_t bytes = 0;  ///< of global memory that the role moved, reads and writes
  std::int32_t rank = 0;
  std::int32_t sm = 0;
  std::int16_t op = 0;     ///< program::Op
  std::int16_t actor = 0;  ///< cuda::Actor
  std::int32_t col = 0;    ///< first column of the output tile
};

/// Who did it, within a CTA.
enum class Actor : std::int16_t { task, load, consumer0, consumer1, store, dispatch, count };

struct Timeline {
  TimelineRecord* records = nullptr;  ///< [capacity]; null = off
  std::uint32_t* count = nullptr;     ///< [1] records written or dropped for lack of room
  std::uint32_t capacity = 0;
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
