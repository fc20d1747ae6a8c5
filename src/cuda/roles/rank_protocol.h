// SPDX-License-Identifier: Apache-2.0
// What a rank says to its peers in every pass: ready, how far it has come, done.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"
#include "cuda/pipeline/waiter.h"

namespace mok::cuda {

__device__ __forceinline__ void raise_at_peers(const ops::RankView& view,
                                               const program::Field<std::uint64_t>& flag,
                                               std::uint64_t value) {
#pragma unroll 1
  for (int peer = 0; peer < view.dims.ranks; ++peer) {
    raise_release(flag.at(view.peers[peer]) + view.dims.rank, value);
  }
}

/// Waits until a flag of every peer has come to this epoch. One thread.
__device__ __forceinline__ bool wait_for_flags(const Waiter& waiter,
                                               const program::Field<std::uint64_t>& flag,
                                               WaitSubject subject) {
#pragma unroll 1
  for (int peer = 0; peer < waiter.plan.view.dims.ranks; ++peer) {
    subject.peer = peer;
    if (!waiter.wait<SystemWord<std::uint64_t>>(flag.at(waiter.mine()) + peer, waiter.epoch, subject))
      return false;
  }
  return true;
}

/// Counts a finished task that pushed to slots; the last one of a step publishes how many steps are complete.
/// One thread, behind whose back all bulk stores of the task are complete.
__device__ __forceinline__ void publish_push(const RankPlan& plan, const Cta& cta, const TaskRecord& record) {
  const ops::RankView& view = plan.view;
  const program::Task& task = record.task;
  // Sequentially consistent: the last arrivers of two neighbouring steps each count their own step and then
  // look at the other's. With acquire and release alone both could miss the other's last count.
  DeviceWord<std::uint32_t> count(cta.counters[task.step_signal]);
  if (count.fetch_add(1, ::cuda::memory_order_seq_cst) + 1 != record.pushes_in_step) return;

  const std::int64_t first_step = task.step_signal - task.step;
  const auto steps = static_cast<std::uint32_t>(
      program::Steps::make(view.dims, view.tables.header->num_tiles, view.pass).count());
  DeviceWord<std::uint32_t> published(*plan.control.published);
  std::uint32_t step = published.load(::cuda::memory_order_seq_cst);
  bool advanced = false;
  while (step < steps) {
    const DeviceWord<std::uint32_t> done(cta.counters[first_step + step]);
    if (done.load(::cuda::memory_order_seq_cst) !=
        program::pushes_in_step(view.dims, view.tables, view.pass, step)) {
      break;
    }
    if (published.compare_exchange_strong(step, step + 1, ::cuda::memory_order_seq_cst)) {
      ++step;
      advanced = true;
    }
  }
  // Raised, not stored: two may come here one step apart, in either order.
  if (advanced) {
    raise_at_peers(view, view.symmetric.watermark, program::watermark_value(cta.epoch, step));
  }
}

/// Tells that a task is done: its counter, and a beat that restarts the deadlines of who waits.
__device__ __forceinline__ void publish(const RankPlan& plan, const Cta& cta, const program::Task& task) {
  if (task.signal >= 0) {
    DeviceWord<std::uint32_t>(cta.counters[task.signal]).fetch_add(1, ::cuda::memory_order_release);
  }
  const ops::RankView& view = plan.view;
  SystemWord<std::uint64_t>(*view.symmetric.heartbeat.at(view.peers[view.dims.rank]))
      .fetch_add(1, ::cuda::memory_order_relaxed);
}

}  // namespace mok::cuda
