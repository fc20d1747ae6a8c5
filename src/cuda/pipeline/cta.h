// SPDX-License-Identifier: Apache-2.0
// What all roles of a CTA know, and the ring by which the task warp hands tasks to the others.
#pragma once

#include <cstdint>
#include <new>

#include "cuda/pipeline/mbarrier.h"
#include "cuda/pipeline/plan.h"
#include "cuda/pipeline/tiles.h"
#include "program/task.h"

namespace mok::cuda {

/// Set once, by thread 0, before the roles part.
struct Cta {
  std::int32_t rank = 0;
  std::int32_t index = 0;  ///< within the rank, by arrival
  program::Role role = program::Role::compute;
  std::uint64_t epoch = 0;            ///< of this pass
  std::uint32_t* counters = nullptr;  ///< the set of this pass
  std::int64_t tasks[program::kNumRoles] = {};
  Guard guard;
  bool must_poison = false;  ///< at the end: the outputs are not a result
};

/// A task cursor in shared memory: too large for the registers of the task warp.
struct CursorStorage {
  alignas(program::TaskCursor) unsigned char bytes[sizeof(program::TaskCursor)];

  __device__ void begin(const RankPlan& plan, program::Role role) {
    new (bytes) program::TaskCursor(plan.view.dims, plan.view.tables, plan.view.pass, role);
  }
  __device__ program::TaskCursor& get() { return *reinterpret_cast<program::TaskCursor*>(bytes); }
};

/// One task, ready to run: what it waits for has happened.
struct TaskRecord {
  program::Task task;
  std::uint32_t pushes_in_step = 0;  ///< what step_done reaches with the step's last task
  std::uint32_t stores_done = 0;     ///< consumers whose results have arrived
  bool is_last = false;              ///< no task: the roles leave
};

/// The barriers of a ring of prepared tasks.
struct TaskBarriers {
  Barrier full[kTasksAhead];   ///< the task warp has written the record
  Barrier empty[kTasksAhead];  ///< every role has read it

  __device__ void init(std::uint32_t readers) {
    for (int i = 0; i < kTasksAhead; ++i) {
      full[i].init(1);
      empty[i].init(readers);
    }
  }
  __device__ void invalidate() {
    for (int i = 0; i < kTasksAhead; ++i) {
      full[i].invalidate();
      empty[i].invalidate();
    }
  }
};

using TaskAt = RingCursor<kTasksAhead>;

/// Appends one event to the timeline, if there is one. Costs one atomic where it is on, a test where it is
/// off.
__device__ __forceinline__ void record_event(const LaunchParams& params, const Cta& cta, Actor actor,
                                             const program::Task& task, std::uint64_t begin,
                                             std::int64_t bytes) {
  if (params.timeline.records == nullptr) return;
  const std::uint32_t i = atomicAdd(params.timeline.count, 1u);
  if (i >= params.timeline.capacity) return;
  TimelineRecord& record = params.timeline.records[i];
  record.begin_ns = begin;
  record.end_ns = ptx::globaltimer();
  record.tile = task.row_tile;
  record.bytes = bytes;
  record.rank = cta.rank;
  record.sm = static_cast<std::int32_t>(ptx::smid());
  record.op = static_cast<std::int16_t>(task.op);
  record.actor = static_cast<std::int16_t>(actor);
  record.col = static_cast<std::int32_t>(task.col_begin);
}

__device__ __forceinline__ std::uint64_t event_begin(const LaunchParams& params) {
  return params.timeline.records == nullptr ? 0 : ptx::globaltimer();
}

}  // namespace mok::cuda
