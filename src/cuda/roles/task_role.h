// SPDX-License-Identifier: Apache-2.0
// The task warp: claims tasks in order, decodes them and waits for what they need, ahead of the roles that
// run them. It alone of a CTA's roles waits on global memory, so that an abort ends the CTA in one place.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"
#include "cuda/pipeline/waiter.h"

namespace mok::cuda {

/// Waits for the counters and watermarks of a task, all lanes at once. True when all have come.
__device__ __forceinline__ bool wait_for_inputs(const Waiter& waiter, const Cta& cta,
                                                const program::Task& task) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const ops::RankView& view = waiter.plan.view;
  bool ok = true;
  WaitSubject subject{static_cast<std::int32_t>(task.op), task.row_tile};
  for (int w = 0; w < task.num_waits; ++w) {
    const program::Wait& wait = task.waits[w];
    for (std::int64_t i = lane; i < wait.count; i += kWarp) {
      subject.counter = wait.counter + i;
      ok = ok &&
           waiter.wait<DeviceWord<std::uint32_t>>(cta.counters + subject.counter, wait.at_least, subject);
    }
  }
  subject.counter = -1;
  for (int peer = lane; peer < view.dims.ranks && task.peer_steps > 0; peer += kWarp) {
    const std::int64_t steps = program::ceil_div(view.tables.rank_tiles[peer], view.dims.minibatch_tiles);
    const std::int64_t needed = program::min(task.peer_steps, steps);
    subject.peer = peer;
    if (needed > 0) {
      ok = ok && waiter.wait<SystemWord<std::uint64_t>>(view.symmetric.watermark.at(waiter.mine()) + peer,
                                                        program::watermark_value(cta.epoch, needed), subject);
    }
  }
  return __all_sync(~0u, ok);
}

/// What a rank does that a test has stopped: nothing, until a peer gives up on it.
__device__ inline void hang_until_aborted(const Waiter& waiter) {
  while (!waiter.aborted()) __nanosleep(1000);
}

__device__ __forceinline__ bool is_in_stage(const StageFilter& stage, const program::Task& task) {
  if (stage.op < 0) return true;
  return stage.op == static_cast<std::int32_t>(task.op) && stage.macrobatch == task.macrobatch;
}

/// \param prepare(record) is called by the whole warp once a task's inputs are there; it may add to the
/// record. False = the pass is aborted.
template <class Record, class Prepare>
__device__ __forceinline__ void run_task_role(const Waiter& waiter, Cta& cta, program::Role role,
                                              TaskBarriers& barriers, Record* records, CursorStorage& cursor,
                                              Prepare&& prepare) {
  const LaunchParams& params = waiter.params;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  std::uint64_t* const ticket = waiter.plan.control.tickets + static_cast<int>(role);
  const std::int64_t tasks = cta.tasks[static_cast<int>(role)];
  TaskAt at;
  for (;;) {
    Record& record = records[at.stage];
    barriers.empty[at.stage].wait(at.parity ^ 1, cta.guard);
    bool is_last = false;
    for (;;) {
      std::int64_t claimed = 0;
      if (lane == 0) {
        claimed = static_cast<std::int64_t>(
            DeviceWord<std::uint64_t>(*ticket).fetch_add(1, ::cuda::memory_order_relaxed));
      }
      claimed = __shfl_sync(~0u, claimed, 0);
      is_last = claimed >= tasks;
      if (is_last) break;
      if (role == program::Role::compute && params.stuck_rank == cta.rank && claimed >= params.stuck_after) {
        hang_until_aborted(waiter);
        is_last = true;
        break;
      }
      if (lane == 0) cursor.get().decode(claimed, record.task);
      __syncwarp();
      if (is_in_stage(params.stage, record.task)) break;
      __syncwarp();
    }
    is_last = is_last || !wait_for_inputs(waiter, cta, record.task) || !prepare(record);
    if (lane == 0) record.is_last = is_last;
    __syncwarp();  // what all lanes have acquired and written is behind lane 0's arrival
    if (lane == 0) barriers.full[at.stage].arrive();
    if (is_last) return;
    at.advance();
  }
}

}  // namespace mok::cuda
