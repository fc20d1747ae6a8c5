// SPDX-License-Identifier: Apache-2.0
// Faults in waits and signals, planted one by one: the verifier must see each of them.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "program/faults.h"

namespace mok::program {
namespace {

/// A kind of wait. With `everywhere` each of its instances is needed by itself; the others are implied by
/// other waits at most places, and needed at some.
struct WaitKind {
  Pass pass;
  Op op;
  Counter counter;
  bool everywhere = true;
};

constexpr WaitKind kWaitKinds[] = {
    {Pass::forward, Op::dispatch_x, Counter::gate_up_done},
    {Pass::forward, Op::gate_up, Counter::x_arrived},
    {Pass::forward, Op::gate_up, Counter::down_done},
    {Pass::forward, Op::down, Counter::gate_up_done},
    {Pass::forward, Op::shared_down, Counter::shared_gate_up_done},
    {Pass::forward, Op::weighted_sum, Counter::shared_out_done},
    {Pass::recompute, Op::gate_up, Counter::x_arrived},
    {Pass::backward, Op::dispatch_x, Counter::weight_grad_done},
    {Pass::backward, Op::dispatch_grad, Counter::weight_grad_done},
    {Pass::backward, Op::gate_up, Counter::x_arrived},
    {Pass::backward, Op::dhidden, Counter::grad_arrived},
    {Pass::backward, Op::dhidden, Counter::gate_up_done},
    {Pass::backward, Op::dhidden, Counter::dx_done},
    {Pass::backward, Op::dx, Counter::dhidden_done},
    {Pass::backward, Op::weight_grad, Counter::dhidden_done},
    {Pass::backward, Op::weight_grad, Counter::weight_grad_done, false},
    {Pass::backward, Op::shared_dx, Counter::shared_dhidden_done},
    {Pass::backward, Op::shared_weight_grad, Counter::shared_dhidden_done},
    {Pass::backward, Op::grad_sum, Counter::shared_out_done},
};

class WaitFaults : public testing::TestWithParam<TileShape> {
 protected:
  Schedules schedules_ = boundary_schedules(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Tiles, WaitFaults, testing::Values(kCpuTiles, kGpuTiles));

TEST_P(WaitFaults, ThePlantIsSound) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    EXPECT_TRUE(verify(schedules_.dims, schedules_.tables, pass).empty());
  }
  EXPECT_EQ(schedules_.header(0).num_tiles, 10);
}

TEST_P(WaitFaults, EveryKindOfWaitIsInTheTable) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      for (int w = 0; w < at.task.num_waits; ++w) {
        const Counter counter = kind_of(schedules_, at.rank, at.task.waits[w].counter);
        const auto same = [&](const WaitKind& k) {
          return k.pass == pass && k.op == at.task.op && k.counter == counter;
        };
        EXPECT_TRUE(std::any_of(std::begin(kWaitKinds), std::end(kWaitKinds), same))
            << name(at.task.op) << " waits for " << name(counter);
      }
    }
  }
}

TEST_P(WaitFaults, ARemovedWaitIsFound) {
  for (const WaitKind& kind : kWaitKinds) {
    std::int64_t removed = 0;
    std::int64_t found = 0;
    for (const TaskAt& at : all_tasks(schedules_, kind.pass)) {
      for (int w = 0; w < at.task.num_waits; ++w) {
        if (at.task.op != kind.op) continue;
        if (kind_of(schedules_, at.rank, at.task.waits[w].counter) != kind.counter) continue;
        TaskAt changed = at;
        remove_wait(changed.task, w);
        ++removed;
        if (mentions(verify_with(schedules_, kind.pass, changed), "nothing orders it behind")) ++found;
      }
    }
    EXPECT_GT(found, 0) << name(kind.op) << " without " << name(kind.counter);
    if (kind.everywhere) {
      EXPECT_EQ(found, removed) << name(kind.op) << " without " << name(kind.counter);
    }
  }
}

/// The two waits on behalf of the carry buffers, where nothing else implies them.
TEST_P(WaitFaults, ARemovedCarryWaitIsFound) {
  std::int64_t reads = 0;
  std::int64_t reuses = 0;
  for (const TaskAt& at : all_tasks(schedules_, Pass::backward)) {
    if (at.task.op != Op::weight_grad || at.task.expert != 3 || at.task.num_waits != 2) continue;
    TaskAt changed = at;
    remove_wait(changed.task, 1);
    const std::vector<std::string> problems = verify_with(schedules_, Pass::backward, changed);
    EXPECT_TRUE(mentions(problems, at.task.opens_sum ? "reuses carry" : "reads carry"));
    ++(at.task.opens_sum ? reuses : reads);
  }
  EXPECT_GT(reads, 0);
  EXPECT_EQ(reads, reuses);
}

TEST_P(WaitFaults, FewerAwaitedStepsAreFound) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      if (at.task.peer_steps == 0) continue;
      TaskAt changed = at;
      changed.task.peer_steps = 0;
      EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "reads slots"));
      // The last group takes what is left, which may have been ready before.
      if (at.task.row_count < kSumTokens) continue;
      changed.task.peer_steps = at.task.peer_steps - 1;
      EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "reads slots"));
    }
  }
}

/// Sums stand behind the pushes of one step more than they wait for, to give peers time; of two more they may
/// not.
TEST_P(WaitFaults, MoreAwaitedStepsAreFound) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      if (at.task.peer_steps == 0 || at.task.peer_steps + 2 > schedules_.header(0).max_steps) continue;
      TaskAt changed = at;
      changed.task.peer_steps += 2;
      EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "stand before it in the order"));
    }
  }
}

TEST_P(WaitFaults, AWrongCountIsFound) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      for (int w = 0; w < at.task.num_waits; ++w) {
        TaskAt changed = at;
        --changed.task.waits[w].at_least;
        EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "signals in the pass"));
        changed.task.waits[w].at_least += 2;
        const std::vector<std::string> problems = verify_with(schedules_, pass, changed);
        EXPECT_TRUE(mentions(problems, "signals in the pass"));
        EXPECT_TRUE(mentions(problems, "stand before it in the order"));
      }
    }
  }
}

TEST_P(WaitFaults, AChangedSignalIsFound) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    const std::vector<TaskAt> tasks = all_tasks(schedules_, pass);
    std::set<std::pair<std::int32_t, std::int64_t>> awaited;
    for (const TaskAt& at : tasks) {
      for (int w = 0; w < at.task.num_waits; ++w) {
        for (std::int64_t c = 0; c < at.task.waits[w].count; ++c) {
          awaited.emplace(at.rank, at.task.waits[w].counter + c);
        }
      }
    }
    for (const TaskAt& at : tasks) {
      for (const std::int64_t other : {std::int64_t{-1}, at.task.signal + 1}) {
        if (!awaited.contains({at.rank, at.task.signal})) continue;  // nobody would notice
        TaskAt changed = at;
        changed.task.signal = other;
        EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "signals in the pass"));
      }
      for (const std::int64_t other : {std::int64_t{-1}, at.task.step_signal + 1}) {
        if (at.task.step_signal < 0) continue;
        TaskAt changed = at;
        changed.task.step_signal = other;
        EXPECT_FALSE(verify_with(schedules_, pass, changed).empty());
      }
    }
  }
}

}  // namespace
}  // namespace mok::program
