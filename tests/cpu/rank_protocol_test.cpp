// SPDX-License-Identifier: Apache-2.0
// Ready, watermark and done: what ranks tell each other in a pass.
#include "cpu/rank_protocol.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/ranks.h"
#include "program/layout.h"

namespace mok::cpu {
namespace {

using testing::Ranks;
using testing::rounds;

/// Pushes of one rank's pass in a shuffled order; each writes its own place before it is published.
struct Round {
  explicit Round(std::mt19937& random) {
    const auto draw = [&random](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    ranks = std::make_unique<Ranks>(std::vector<std::int64_t>{draw(1, 24), draw(0, 24)}, draw(1, 3),
                                    128 * draw(1, 2));
    const ops::RankView& view = ranks->launch.ranks[0].view;
    steps = program::ceil_div(view.tables.header->num_tiles, view.dims.minibatch_tiles);
    const program::CounterLayout counters = program::CounterLayout::make(view.dims);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t pushes =
          program::pushes_in_step(view.dims, view.tables, program::Pass::forward, step);
      for (std::int64_t i = 0; i < pushes; ++i) {
        program::Task task;
        task.op = program::Op::down;
        task.step = step;
        task.step_signal = counters.at(program::Counter::step_done, step);
        tasks.push_back(task);
      }
    }
    written.resize(tasks.size());
    // Workers run at different speeds: neighbouring steps overlap, or in some rounds all of them.
    const std::int64_t reach = draw(0, 3) == 0 ? static_cast<std::int64_t>(tasks.size()) : draw(1, 6);
    std::vector<std::int64_t> place(tasks.size());
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = static_cast<std::int64_t>(i) + draw(0, reach);
    order.resize(tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return place[a] < place[b]; });
  }

  void push(std::size_t index) {
    written[order[index]] = 1;
    publish_push(ranks->launch, 0, tasks[order[index]]);
  }

  /// Steps that rank 1 sees as pushed; all of their places must have been written.
  std::int64_t look() {
    const std::uint64_t seen = load_acquire(ranks->at(ranks->layout().watermark, 1, 0));
    const std::uint64_t none = program::watermark_value(ranks->launch.epoch, 0);
    const std::int64_t complete = seen == 0 ? 0 : static_cast<std::int64_t>(seen - none);
    for (std::size_t t = 0; t < tasks.size() && tasks[t].step < complete; ++t)
      early += written[t] == 0 ? 1 : 0;
    return complete;
  }

  /// Steps that are complete, and all steps before them too, when the first `count` of the order have been
  /// pushed.
  [[nodiscard]] std::int64_t complete_after(std::size_t count) const {
    std::int64_t complete = steps;
    for (std::size_t i = count; i < order.size(); ++i) complete = std::min(complete, tasks[order[i]].step);
    return complete;
  }

  std::unique_ptr<Ranks> ranks;
  std::int64_t steps = 0;
  std::vector<program::Task> tasks;
  std::vector<std::size_t> order;
  std::vector<int> written;  // plain: the watermark alone makes it visible
  std::atomic<std::size_t> arrived = 0;
  std::atomic<std::int64_t> early = 0;
};

// One worker, so that each push has one right answer.
TEST(PublishPush, PublishesTheStepsThatAreCompleteUpToHere) {
  std::mt19937 random(2);
  for (int played = 0; played < rounds(300); ++played) {
    Round round(random);
    for (std::size_t i = 0; i < round.order.size(); ++i) {
      round.push(i);
      ASSERT_EQ(round.look(), round.complete_after(i + 1)) << "round " << played << ", push " << i;
    }
  }
}

// Never a step before all steps up to it are complete; always all of them in the end. The workers meet before
// each push, so that the last arrivers of neighbouring steps come as close together as the machine lets them.
TEST(PublishPush, NeverEarlyAndAlwaysInTheEnd) {
  constexpr std::size_t kWorkers = 3;
  const int num_rounds = rounds(1000);
  std::mt19937 random(1);
  auto round = std::make_unique<Round>(random);
  int played = 0;
  std::barrier meet(kWorkers + 1);
  const auto push_share = [&](std::size_t worker) {
    std::int64_t seen = 0;
    for (std::size_t turn = 0; turn * kWorkers < round->order.size(); ++turn) {
      for (++round->arrived; round->arrived < (turn + 1) * kWorkers;) std::this_thread::yield();
      const std::size_t index = turn * kWorkers + worker;
      if (index >= round->order.size()) continue;
      round->push(index);
      const std::int64_t now = round->look();
      EXPECT_GE(now, seen) << "a watermark went back";
      seen = now;
    }
  };
  std::vector<std::jthread> workers;
  for (std::size_t worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      for (meet.arrive_and_wait(); played < num_rounds; meet.arrive_and_wait()) {
        push_share(worker);
        meet.arrive_and_wait();
      }
    });
  }
  for (; played < num_rounds; ++played) {
    meet.arrive_and_wait();  // the round begins
    meet.arrive_and_wait();  // and is over
    EXPECT_EQ(round->look(), round->steps) << "round " << played << ": steps were left unpublished";
    EXPECT_EQ(round->early, 0) << "round " << played << ": a step was published before its pushes";
    EXPECT_EQ(*round->ranks->at(round->ranks->layout().watermark, 0, 0),
              *round->ranks->at(round->ranks->layout().watermark, 1, 0));
    if (HasFailure()) played = num_rounds - 1;  // the workers are still to be let go
    if (played + 1 < num_rounds) round = std::make_unique<Round>(random);
  }
  meet.arrive_and_wait();
}

// A sum that needs more steps than a rank has waits for all that it has, and not at all for a rank without
// rows.
TEST(WaitForPushes, AsksEachRankForWhatItHas) {
  Ranks ranks({5, 2, 0}, 2);
  ranks.arrive();
  ranks.launch.settings.progress_deadline_seconds = 0.1;
  program::Task task;
  task.op = program::Op::weighted_sum;
  task.row_tile = 8;
  task.peer_steps = 2;
  const auto wait = [&] {
    FailureBox failures;
    Waiter waiter(ranks.launch, failures, 2, program::Role::compute, 0);
    return wait_for_pushes(ranks.launch, 2, task, waiter);
  };
  raise_release(ranks.at(ranks.layout().watermark, 2, 0), program::watermark_value(ranks.launch.epoch, 2));
  raise_release(ranks.at(ranks.layout().watermark, 2, 1), program::watermark_value(ranks.launch.epoch, 1));
  EXPECT_TRUE(wait());
  task.peer_steps = 3;
  EXPECT_FALSE(wait()) << "rank 0 has a third step";
}

TEST(WaitForPushes, LastPassesWatermarkDoesNotCount) {
  Ranks ranks({1});
  ranks.arrive();
  ranks.launch.settings.progress_deadline_seconds = 0.1;
  raise_release(ranks.at(ranks.layout().watermark, 0),
                program::watermark_value(ranks.launch.epoch - 1, 1 << 19));
  FailureBox failures;
  Waiter waiter(ranks.launch, failures, 0, program::Role::compute, 0);
  program::Task task;
  task.op = program::Op::grad_sum;
  task.peer_steps = 1;
  EXPECT_FALSE(wait_for_pushes(ranks.launch, 0, task, waiter));
}

TEST(WaitForPeers, WaitsForEveryRank) {
  Ranks ranks({1, 1, 1});
  ranks.launch.settings.arrival_deadline_seconds = 0.1;
  publish_ready(ranks.launch, 0);
  publish_ready(ranks.launch, 1);
  FailureBox failures;
  Waiter waiter(ranks.launch, failures, 0, program::Role::communication, 0);
  EXPECT_FALSE(wait_for_peers(ranks.launch, 0, waiter));
  ASSERT_TRUE(failures.first().has_value());
  EXPECT_EQ(failures.first()->counter, "ready flag of rank 2") << "the rank that is missing";
  publish_ready(ranks.launch, 2);
  EXPECT_TRUE(wait_for_peers(ranks.launch, 0, waiter));
}

TEST(LeavePass, WaitsForThePeersAndClearsForTheNextPass) {
  Ranks ranks({2, 2});
  ranks.arrive();
  const LocalControl& control = ranks.launch.ranks[0].control;
  const std::int64_t counters = program::CounterLayout::make(ranks.launch.ranks[0].view.dims).size();
  std::fill_n(control.counters, counters, 7u);
  std::fill_n(control.spare_counters, counters, 9u);
  std::fill_n(control.tickets, program::kNumRoles, std::uint64_t{11});
  *control.published = 2;

  FailureBox failures;
  std::atomic<bool> peer_left = false;
  std::jthread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    peer_left = true;
    Waiter waiter(ranks.launch, failures, 1, program::Role::compute, 0);
    EXPECT_TRUE(leave_pass(ranks.launch, 1, waiter));
  });
  Waiter waiter(ranks.launch, failures, 0, program::Role::compute, 0);
  EXPECT_TRUE(leave_pass(ranks.launch, 0, waiter));
  EXPECT_TRUE(peer_left);
  EXPECT_TRUE(
      std::all_of(control.spare_counters, control.spare_counters + counters, [](auto c) { return c == 0; }));
  EXPECT_TRUE(std::all_of(control.counters, control.counters + counters, [](auto c) { return c == 7; }))
      << "peers' workers may still read this pass's counters";
  EXPECT_EQ(control.tickets[0], 0u);
  EXPECT_EQ(control.tickets[1], 0u);
  EXPECT_EQ(*control.published, 0u);
  EXPECT_EQ(*ranks.at(ranks.layout().epoch, 0), ranks.launch.epoch);
}

TEST(LeavePass, DoesNotEndAnAbandonedPass) {
  Ranks ranks({2, 2});
  raise_release(ranks.at(ranks.layout().abort, 0), ranks.launch.epoch);
  FailureBox failures;
  Waiter waiter(ranks.launch, failures, 0, program::Role::compute, 0);
  EXPECT_FALSE(leave_pass(ranks.launch, 0, waiter));
  EXPECT_EQ(*ranks.at(ranks.layout().done, 1, 0), 0u);
  EXPECT_EQ(*ranks.at(ranks.layout().epoch, 0), 0u);
}

}  // namespace
}  // namespace mok::cpu
