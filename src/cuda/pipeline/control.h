// SPDX-License-Identifier: Apache-2.0
// Words and records that host and kernel share. Plain C++, no CUDA header.
#pragma once

#include <cstdint>

#include "program/op.h"
#include "program/tables.h"

namespace mok::cuda {

/// Control words of one rank's local memory (LocalLayout).
struct LocalControl {
  std::uint32_t* counters = nullptr;     ///< two sets; which one is used is told by counter_set
  std::uint32_t* counter_set = nullptr;  ///< [1] 0 or 1, the set of the next pass
  std::uint64_t* tickets = nullptr;      ///< [kNumRoles]
  std::uint32_t* published = nullptr;    ///< [1] steps published so far
  /// [3] CTAs of a launch that have begun (rank 0's counts for all ranks), that have ended for this rank,
  /// that have ended for all (rank 0's).
  std::uint32_t* arrivals = nullptr;
};

/// What the first wait that ran into its deadline was for; written by the GPU into pinned host memory.
struct FailureRecord {
  std::uint32_t raised = 0;  ///< 1 once the rest is complete
  std::uint64_t epoch = 0;
  std::int32_t rank = -1;
  std::int32_t cta = -1;
  std::int32_t role = 0;  ///< program::Role
  std::int32_t op = -1;   ///< program::Op; -1 = start of the pass, -2 = end of the pass
  std::int64_t tile = -1;
  std::int64_t counter = -1;  ///< index in the counter set; -1 = a flag of `peer`
  std::int32_t peer = -1;
  std::int32_t is_arrival = 0;  ///< which of the two deadlines
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

}  // namespace mok::cuda
