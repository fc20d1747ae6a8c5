// SPDX-License-Identifier: Apache-2.0
// Faults in tasks, in their order and in the tables, planted one by one: the verifier must see each of them.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "program/faults.h"

namespace mok::program {
namespace {

constexpr Pass kPasses[] = {Pass::forward, Pass::backward, Pass::recompute};

class TaskFaults : public testing::Test {
 protected:
  std::vector<std::string> problems(Pass pass) const {
    return verify(schedules_.dims, schedules_.tables, pass);
  }
  ScheduleHeader& header(int rank) { return *schedules_.tables[rank].header; }
  Stretch* stretches(int rank, Pass pass, Role role) {
    return schedules_.tables[rank].stretches[static_cast<int>(pass)][static_cast<int>(role)];
  }
  std::int32_t num_stretches(int rank, Pass pass, Role role) {
    return header(rank).num_stretches[static_cast<int>(pass)][static_cast<int>(role)];
  }

  Schedules schedules_ = boundary_schedules();
};

bool names_a_gap(const std::vector<std::string>& problems) {
  return mentions(problems, "Nobody writes") || mentions(problems, "Nobody sums") ||
         mentions(problems, "summed 0");
}

bool names_a_repetition(const std::vector<std::string>& problems) {
  return mentions(problems, " again.") || mentions(problems, "writes too") || mentions(problems, "summed 2");
}

TEST_F(TaskFaults, ADroppedTaskIsFound) {
  for (const Pass pass : kPasses) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      TaskAt changed = at;
      changed.task = Task{};
      const std::vector<std::string> found = verify_with(schedules_, pass, changed);
      EXPECT_TRUE(names_a_gap(found)) << name(at.task.op);
      EXPECT_TRUE(mentions(found, "is no task"));
    }
  }
}

TEST_F(TaskFaults, ADuplicateIsFound) {
  for (const Pass pass : kPasses) {
    const std::vector<TaskAt> tasks = all_tasks(schedules_, pass);
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      if (tasks[i - 1].rank != tasks[i].rank || tasks[i - 1].role != tasks[i].role) continue;
      TaskAt changed = tasks[i];
      changed.task = tasks[i - 1].task;
      const std::vector<std::string> found = verify_with(schedules_, pass, changed);
      EXPECT_TRUE(names_a_gap(found)) << name(tasks[i].task.op);
      EXPECT_TRUE(names_a_repetition(found)) << name(tasks[i - 1].task.op);
    }
  }
}

TEST_F(TaskFaults, AShiftedTaskIsFound) {
  using Shift = void (*)(Task&);
  constexpr Shift kShifts[] = {
      [](Task& t) { t.row_begin += 1; },
      [](Task& t) { t.row_begin += kRowTile; },
      [](Task& t) { t.row_count += 1; },
      [](Task& t) { t.row_tile += 1; },
      [](Task& t) { t.col_begin += kPartialCols; },
      [](Task& t) { t.col_count -= kPartialCols; },
  };
  for (const Pass pass : kPasses) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      for (const Shift shift : kShifts) {
        const bool has_row_tile = at.task.op != Op::weight_grad && at.task.op != Op::shared_weight_grad;
        if (shift == kShifts[3] && !has_row_tile) continue;
        // An expert without rows has no first row either.
        if (shift == kShifts[1] && !has_row_tile && at.task.row_count == 0) continue;
        TaskAt changed = at;
        shift(changed.task);
        const bool found = !verify_with(schedules_, pass, changed).empty();
        EXPECT_TRUE(found) << name(at.task.op) << ", shift " << (&shift - &kShifts[0]);
      }
    }
  }
}

/// A task that does its neighbour's row tile, in full, but waits and signals as itself.
TEST_F(TaskFaults, AWorkOnTheNextTileIsFound) {
  for (const Pass pass : kPasses) {
    const std::vector<TaskAt> tasks = all_tasks(schedules_, pass);
    for (const TaskAt& at : tasks) {
      for (const TaskAt& next : tasks) {
        const bool neighbours = next.rank == at.rank && next.task.op == at.task.op &&
                                next.task.row_tile == at.task.row_tile + 1 &&
                                next.task.col_begin == at.task.col_begin;
        if (!neighbours || at.task.op == Op::weight_grad) continue;
        TaskAt changed = at;
        changed.task = next.task;
        std::copy(std::begin(at.task.waits), std::end(at.task.waits), std::begin(changed.task.waits));
        changed.task.num_waits = at.task.num_waits;
        changed.task.signal = at.task.signal;
        changed.task.step_signal = at.task.step_signal;
        changed.task.peer_steps = at.task.peer_steps;
        EXPECT_TRUE(names_a_repetition(verify_with(schedules_, pass, changed))) << name(at.task.op);
      }
    }
  }
}

TEST_F(TaskFaults, AWrongPlaceInTheRingIsFound) {
  for (const Pass pass : kPasses) {
    for (const TaskAt& at : all_tasks(schedules_, pass)) {
      const bool in_ring = at.task.expert >= 0 && at.task.row_count > 0;
      TaskAt changed = at;
      changed.task.ring_row = at.task.ring_row == 0 ? kRowTile : 0;
      if (in_ring) {
        EXPECT_TRUE(mentions(verify_with(schedules_, pass, changed), "place in the ring"))
            << name(at.task.op);
      }
    }
  }
}

TEST_F(TaskFaults, AWrongSegmentIsFound) {
  using Change = void (*)(Task&);
  constexpr Change kChanges[] = {
      [](Task& t) { t.opens_sum = !t.opens_sum; },
      [](Task& t) { t.closes_sum = !t.closes_sum; },
      [](Task& t) { t.macrobatch += 1; },
      [](Task& t) { t.expert += t.expert == 0 ? 1 : -1; },
      [](Task& t) { t.matrix = t.matrix == Matrix::gate ? Matrix::up : Matrix::gate; },
      [](Task& t) { t.padded_rows = t.row_count += t.row_count > kRowTile ? -kRowTile : kRowTile; },
  };
  for (const TaskAt& at : all_tasks(schedules_, Pass::backward)) {
    if (at.task.op != Op::weight_grad) continue;
    for (const Change change : kChanges) {
      TaskAt changed = at;
      change(changed.task);
      EXPECT_FALSE(verify_with(schedules_, Pass::backward, changed).empty());
    }
  }
}

TEST_F(TaskFaults, AWrittenContextIsFound) {
  for (const TaskAt& at : all_tasks(schedules_, Pass::backward)) {
    if (at.task.op != Op::dispatch_grad || at.task.macrobatch > 0) continue;
    TaskAt changed = at;
    changed.task.op = Op::dispatch_x;
    EXPECT_TRUE(mentions(verify_with(schedules_, Pass::backward, changed), "must leave alone"));
  }
}

TEST_F(TaskFaults, ATaskOfAnotherPassOrRoleIsFound) {
  const TaskAt dispatch = all_tasks(schedules_, Pass::forward).front();
  TaskAt changed = dispatch;
  changed.role = Role::compute;
  EXPECT_TRUE(mentions(verify_with(schedules_, Pass::forward, changed), "wrong role"));
  EXPECT_TRUE(mentions(verify_with(schedules_, Pass::backward, all_tasks(schedules_, Pass::forward).back()),
                       "does not belong to the backward pass"));
}

TEST_F(TaskFaults, SwappedPhasesAreFound) {
  for (const Pass pass : kPasses) {
    for (const Role role : {Role::communication, Role::compute}) {
      for (std::int32_t s = 0; s + 1 < num_stretches(1, pass, role); ++s) {
        Stretch* list = stretches(1, pass, role);
        if (list[s].phase == list[s + 1].phase) continue;
        std::swap(list[s].phase, list[s + 1].phase);
        EXPECT_TRUE(mentions(problems(pass), "less than the stretch before it"));
        std::swap(list[s].phase, list[s + 1].phase);
      }
    }
  }
}

TEST_F(TaskFaults, AListThatStandsTooLateIsFound) {
  for (const Pass pass : kPasses) {
    for (std::int32_t s = 0; s < num_stretches(0, pass, Role::communication); ++s) {
      stretches(0, pass, Role::communication)[s].phase += 1000;
    }
    EXPECT_TRUE(mentions(problems(pass), "stand before it in the order"));
  }
}

TEST_F(TaskFaults, SwappedStretchesAreFound) {
  Stretch* list = stretches(1, Pass::forward, Role::compute);
  for (std::int32_t s = 0; s + 1 < num_stretches(1, Pass::forward, Role::compute); ++s) {
    std::swap(list[s].parts, list[s + 1].parts);
    std::swap(list[s].num_parts, list[s + 1].num_parts);
    EXPECT_FALSE(problems(Pass::forward).empty()) << "stretch " << s;
    std::swap(list[s].parts, list[s + 1].parts);
    std::swap(list[s].num_parts, list[s + 1].num_parts);
  }
  EXPECT_TRUE(problems(Pass::forward).empty());
}

TEST_F(TaskFaults, WrongCountsAreFound) {
  for (const Pass pass : kPasses) {
    Stretch& stretch = stretches(0, pass, Role::communication)[1];
    --stretch.parts[0].units;
    EXPECT_FALSE(problems(pass).empty());
    ++stretch.parts[0].units;
    // What does not change this layer's indices would change those of another: there is no dx in these lists.
    for (const Op op : {stretch.parts[0].op, Op::dx}) {
      ++stretch.units_before[static_cast<int>(op)];
      EXPECT_TRUE(mentions(problems(pass), std::string("begins at ") + name(op)));
      --stretch.units_before[static_cast<int>(op)];
    }
    std::int32_t& count = header(0).num_stretches[static_cast<int>(pass)][static_cast<int>(Role::compute)];
    --count;
    EXPECT_TRUE(names_a_gap(problems(pass)) || mentions(problems(pass), "signals in the pass"));
    count = 1000;
    EXPECT_TRUE(mentions(problems(pass), "more than its table holds"));
  }
}

TEST_F(TaskFaults, AWrongTokenOrderIsFound) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    std::int32_t* order = schedules_.tables[0].token_order[sum_table(pass)];
    std::swap(order[0], order[header(0).num_tokens - 1]);
    EXPECT_TRUE(mentions(problems(pass), "reads slots"));
    order[0] = order[1];
    EXPECT_TRUE(mentions(problems(pass), "no permutation"));
  }
}

TEST_F(TaskFaults, WrongTablesAreFound) {
  const auto expect = [&](auto& value, auto wrong, const std::string& text) {
    const auto right = value;
    value = static_cast<std::remove_reference_t<decltype(value)>>(wrong);
    EXPECT_TRUE(mentions(problems(Pass::forward), text)) << text;
    value = right;
  };
  ScheduleTables& t = schedules_.tables[1];
  expect(t.source_slot[1], t.source_slot[0], "another row's or another expert's");
  expect(t.source_rank[0], -1, "wrong source for row 0");
  expect(t.source_slot[127 + 3 * 128], 0, "wrong source for row 511");
  expect(t.tile_expert[3], 1, "wrong expert for row tile 3");
  expect(t.first_tile[1], 3, "tiles that do not fit its rows");
  expect(t.rank_tiles[0], 9, "wrong about the tiles of rank 0");
  expect(header(1).max_steps, 9, "wrong about the most steps");
  expect(header(1).refusal, Refusal::capacity_overflow, "does not decide");
  expect(schedules_.dims[1].minibatch_tiles, 2, "other sizes than rank 0");
  EXPECT_TRUE(problems(Pass::forward).empty());
}

}  // namespace
}  // namespace mok::program
