// SPDX-License-Identifier: Apache-2.0
#include "cpu/executor.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "cpu/bodies.h"
#include "cpu/flags.h"
#include "cpu/jitter.h"
#include "cpu/rank_protocol.h"
#include "cpu/thread_team.h"
#include "cpu/waiter.h"
#include "program/task.h"

namespace mok::cpu {
namespace {

using program::Role;
using program::Task;

/// One thread of one rank.
class Worker {
 public:
  Worker(const Launch& launch, FailureBox& failures, std::atomic<int>& workers_left, int rank, Role role,
         int index)
      : launch_(launch),
        rank_(launch.ranks[static_cast<std::size_t>(rank)]),
        workers_left_(workers_left),
        role_(role),
        index_(index),
        waiter_(launch, failures, rank, role, index),
        jitter_(
            launch.settings.timing_seed,
            static_cast<std::uint64_t>((rank * program::kNumRoles + static_cast<int>(role)) * 1024 + index)) {
  }

  void run() {
    if (role_ == Role::communication && index_ == 0) {
      jitter_.pause();
      stage_inputs(rank_.view);
      publish_ready(launch_, rank());
    }
    if (role_ == Role::compute || wait_for_peers(launch_, rank(), waiter_)) work();
    // The last one out, of either role, has everything that the others did behind it.
    if (workers_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) leave_pass(launch_, rank(), waiter_);
  }

 private:
  [[nodiscard]] int rank() const { return rank_.view.dims.rank; }

  void work() {
    const ops::RankView& view = rank_.view;
    const std::int64_t tasks = program::num_tasks(view.dims, view.tables, launch_.pass, role_);
    std::atomic_ref<std::uint64_t> tickets(rank_.control.tickets[static_cast<int>(role_)]);
    const auto buffer = std::make_unique<TileBuffer>();
    for (;;) {
      jitter_.pause();
      const auto claimed = static_cast<std::int64_t>(tickets.fetch_add(1, std::memory_order_relaxed));
      if (claimed >= tasks) return;
      if (is_stuck(claimed)) return hang();
      const Task task = program::decode_task(view.dims, view.tables, launch_.pass, role_, claimed);
      if (!wait_for_inputs(task)) return;
      jitter_.pause();
      run_recorded(launch_.settings.log, rank(), role_, index_, task, [&] { run_body(view, task, *buffer); });
      jitter_.pause();
      publish(task);
    }
  }

  [[nodiscard]] bool is_stuck(std::int64_t claimed) const {
    const group::FaultPlan& faults = launch_.settings.faults;
    return role_ == Role::compute && faults.stuck_rank == rank() && claimed >= faults.stuck_after;
  }

  /// What a stuck worker does until a peer gives up: not leave, or its rank would say that it is done.
  void hang() const {
    while (!waiter_.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  bool wait_for_inputs(const Task& task) {
    const program::CounterLayout layout = program::CounterLayout::make(rank_.view.dims);
    for (int w = 0; w < task.num_waits; ++w) {
      const program::Wait& wait = task.waits[w];
      const WaitSubject subject{program::name(task.op), task.row_tile,
                                program::name(layout.kind_of(wait.counter))};
      for (std::int64_t c = wait.counter; c < wait.counter + wait.count; ++c) {
        if (!waiter_.wait(rank_.control.counters + c, wait.at_least, subject, DeadlineKind::progress))
          return false;
      }
    }
    return task.peer_steps == 0 || wait_for_pushes(launch_, rank(), task, waiter_);
  }

  void publish(const Task& task) {
    if (task.signal >= 0) {
      // Release: what the body wrote is behind the count. Waiters acquire the whole sequence of counts.
      std::atomic_ref<std::uint32_t>(rank_.control.counters[task.signal])
          .fetch_add(1, std::memory_order_release);
    }
    if (task.step_signal >= 0) publish_push(launch_, rank(), task);
    std::uint64_t* const beat = rank_.view.symmetric.heartbeat.at(rank_.view.peers[rank()]);
    std::atomic_ref<std::uint64_t>(*beat).fetch_add(1, std::memory_order_relaxed);
  }

  const Launch& launch_;
  const RankLaunch& rank_;
  std::atomic<int>& workers_left_;
  Role role_;
  int index_;
  Waiter waiter_;
  Jitter jitter_;
};

void copy(bfloat16* to, const bfloat16* from, std::int64_t count) {
  if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(bfloat16));
}

}  // namespace

void stage_inputs(const ops::RankView& view) {
  std::byte* const mine = view.peers[view.dims.rank];
  const std::int64_t tokens = view.tables.header->num_tokens;
  bool x_is_pulled = view.pass != program::Pass::backward;
  for (int peer = 0; peer < view.dims.ranks; ++peer) {  // backward pulls x for rows that no context holds
    x_is_pulled = x_is_pulled || view.tables.rank_tiles[peer] > view.dims.macrobatch_tiles;
  }
  if (x_is_pulled) copy(view.symmetric.x.at(mine), view.x, tokens * view.dims.hidden);
  if (view.pass != program::Pass::backward) return;
  copy(view.symmetric.grad_output.at(mine), view.grad_output, tokens * view.dims.hidden);
  for (std::int64_t i = 0; i < tokens * view.dims.topk; ++i) {
    view.symmetric.router_weights.at(mine)[i] = view.router_weights[i];
  }
}

std::optional<WaitFailure> run_fused(const Launch& launch) {
  FailureBox failures;
  const int per_rank = launch.settings.workers[0] + launch.settings.workers[1];
  std::vector<std::atomic<int>> workers_left(launch.ranks.size());
  for (std::atomic<int>& left : workers_left) left = per_rank;
  std::vector<std::function<void()>> workers;
  for (std::size_t rank = 0; rank < launch.ranks.size(); ++rank) {
    for (const Role role : {Role::communication, Role::compute}) {
      for (int index = 0; index < launch.settings.workers[static_cast<int>(role)]; ++index) {
        workers.emplace_back([&launch, &failures, &left = workers_left[rank], rank, role, index] {
          Worker(launch, failures, left, static_cast<int>(rank), role, index).run();
        });
      }
    }
  }
  run_together(workers);
  return failures.first();
}

}  // namespace mok::cpu
