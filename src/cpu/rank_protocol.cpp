// SPDX-License-Identifier: Apache-2.0
#include "cpu/rank_protocol.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cpu/flags.h"
#include "program/layout.h"
#include "program/steps.h"

namespace mok::cpu {
namespace {

using program::Field;

const ops::RankView& view_of(const Launch& launch, int rank) {
  return launch.ranks[static_cast<std::size_t>(rank)].view;
}

void raise_at_peers(const ops::RankView& view, const Field<std::uint64_t>& flag, std::uint64_t value) {
  for (int peer = 0; peer < view.dims.ranks; ++peer) {
    raise_release(flag.at(view.peers[peer]) + view.dims.rank, value);
  }
}

bool wait_for_flags(const Launch& launch, int rank, const Field<std::uint64_t>& flag,
                    const WaitSubject& subject, DeadlineKind kind, Waiter& waiter) {
  const ops::RankView& view = view_of(launch, rank);
  for (int peer = 0; peer < view.dims.ranks; ++peer) {
    WaitSubject of_peer = subject;
    of_peer.peer = peer;
    if (!waiter.wait(flag.at(view.peers[rank]) + peer, launch.epoch, of_peer, kind)) return false;
  }
  return true;
}

}  // namespace

void publish_ready(const Launch& launch, int rank) {
  const group::FaultPlan& faults = launch.settings.faults;
  if (faults.never_ready_rank == rank) return;
  if (faults.late_rank == rank) {
    std::this_thread::sleep_for(std::chrono::duration<double>(faults.late_seconds));
  }
  const ops::RankView& view = view_of(launch, rank);
  raise_at_peers(view, view.symmetric.ready, launch.epoch);
}

bool wait_for_peers(const Launch& launch, int rank, Waiter& waiter) {
  const ops::RankView& view = view_of(launch, rank);
  return wait_for_flags(launch, rank, view.symmetric.ready,
                        {"the start of the pass", -1, "ready flag of rank"}, DeadlineKind::arrival, waiter);
}

void publish_push(const Launch& launch, int rank, const program::Task& task) {
  const RankLaunch& mine = launch.ranks[static_cast<std::size_t>(rank)];
  const ops::RankView& view = mine.view;
  const auto pushes = [&](std::int64_t step) {
    return static_cast<std::uint32_t>(program::pushes_in_step(view.dims, view.tables, launch.pass, step));
  };
  // Sequentially consistent: the last arrivers of two neighbouring steps each count their own step and then
  // look at the other's. With acquire and release alone both could miss the other's last count, and nobody
  // would publish.
  std::atomic_ref<std::uint32_t> mine_done(mine.control.counters[task.step_signal]);
  if (mine_done.fetch_add(1) + 1 != pushes(task.step)) return;

  const std::int64_t first_step = task.step_signal - task.step;
  const std::int64_t steps =
      program::Steps::make(view.dims, view.tables.header->num_tiles, launch.pass).count();
  std::atomic_ref<std::uint32_t> published(*mine.control.published);
  std::uint32_t step = published.load();
  bool advanced = false;
  while (step < steps) {
    const std::atomic_ref<std::uint32_t> done(mine.control.counters[first_step + step]);
    if (done.load() != pushes(step)) break;
    if (published.compare_exchange_strong(step, step + 1)) {
      ++step;
      advanced = true;
    }
  }
  // Raised, not stored: two workers may come here one step apart, in either order.
  if (advanced) raise_at_peers(view, view.symmetric.watermark, program::watermark_value(launch.epoch, step));
}

bool wait_for_pushes(const Launch& launch, int rank, const program::Task& task, Waiter& waiter) {
  const ops::RankView& view = view_of(launch, rank);
  for (int peer = 0; peer < view.dims.ranks; ++peer) {
    const std::int64_t steps = program::ceil_div(view.tables.rank_tiles[peer], view.dims.minibatch_tiles);
    const std::int64_t needed = std::min(task.peer_steps, steps);
    if (needed == 0) continue;
    const WaitSubject subject{program::name(task.op), task.row_tile, "steps pushed by rank", peer,
                              program::watermark_value(launch.epoch, 0)};
    if (!waiter.wait(view.symmetric.watermark.at(view.peers[rank]) + peer,
                     program::watermark_value(launch.epoch, needed), subject, DeadlineKind::progress)) {
      return false;
    }
  }
  return true;
}

bool leave_pass(const Launch& launch, int rank, Waiter& waiter) {
  if (waiter.aborted()) return false;
  const RankLaunch& mine = launch.ranks[static_cast<std::size_t>(rank)];
  const ops::RankView& view = mine.view;
  raise_at_peers(view, view.symmetric.done, launch.epoch);
  if (!wait_for_flags(launch, rank, view.symmetric.done, {"the end of the pass", -1, "done flag of rank"},
                      DeadlineKind::progress, waiter)) {
    return false;
  }
  if (mine.control.tickets != nullptr) {
    const std::int64_t size = program::CounterLayout::make(view.dims).size();
    std::fill_n(mine.control.spare_counters, size, 0u);
    std::fill_n(mine.control.tickets, program::kNumRoles, std::uint64_t{0});
    *mine.control.published = 0;
  }
  store_release(view.symmetric.epoch.at(view.peers[rank]), launch.epoch);
  return true;
}

}  // namespace mok::cpu
