// SPDX-License-Identifier: Apache-2.0
// R2: in every pass, whatever a rank does not do, all ranks leave within the deadline, an exception says who
// waited for what, outputs are NaN, and after reset() the workspace gives the bits of a fresh one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/state.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

/// For passes that are to stall. Good passes have patience: a machine that runs other things besides is slow.
constexpr double kDeadline = 0.5;
constexpr double kPatience = 100;

enum class Call { schedule, forward, recompute, backward };

constexpr const char* name(Call call) {
  constexpr const char* kNames[] = {"BuildSchedule", "Forward", "Recompute", "Backward"};
  return kNames[static_cast<int>(call)];
}

struct Stall {
  Call call;
  group::FaultPlan faults;
  std::int64_t macrobatch = 131072;
};

std::string describe(const Stall& stall) {
  const std::string fault =
      stall.faults.never_ready_rank >= 0
          ? fmt::format("Rank{}NeverReady", stall.faults.never_ready_rank)
          : fmt::format("Rank{}StuckAfter{}", stall.faults.stuck_rank, stall.faults.stuck_after);
  return fmt::format("{}{}Macrobatch{}", name(stall.call), fault, stall.macrobatch);
}

std::ostream& operator<<(std::ostream& out, const Stall& stall) { return out << describe(stall); }

RunOptions patient(std::int64_t macrobatch) {
  RunOptions run;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = macrobatch;
  run.config.arrival_deadline_seconds = kPatience;
  run.config.progress_deadline_seconds = kPatience;
  return run;
}

/// From now on passes have the fault and little patience, or (the default) neither.
void set_faults(Workspace& workspace, const group::FaultPlan& faults, double deadline = kPatience) {
  api::WorkspaceState& state = workspace.state();
  state.faults = faults;
  state.config.arrival_deadline_seconds = deadline;
  state.config.progress_deadline_seconds = deadline;
}

/// Every rank has rows, so that every rank is waited for; rank 0 has several macrobatches of 128.
const reference::Problem& problem() {
  static const reference::Problem made = reference::random_problem(mixed_problem({120, 80, 100, 60}, 71));
  return made;
}

bool all_nan(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

class StalledPass : public ::testing::TestWithParam<Stall> {
 protected:
  void make(Call call) {
    switch (call) {
      case Call::schedule:
        static_cast<void>(harness_.schedule(workspace_));
        break;
      case Call::forward:
        static_cast<void>(harness_.forward(workspace_, schedule_));
        break;
      case Call::recompute:
        static_cast<void>(harness_.recompute(workspace_, schedule_));
        break;
      case Call::backward:
        harness_.backward(workspace_, schedule_, context_);
        break;
    }
  }

  /// What the call throws, which must be DeadlineExceeded.
  std::string sentence_of(Call call) {
    try {
      make(call);
    } catch (const DeadlineExceeded& error) {
      return error.what();
    }
    ADD_FAILURE() << name(call) << " did not throw";
    return "";
  }

  void expect_outputs_are_nan(Call call) const {
    const LayerRun run = harness_.results();
    if (call == Call::forward) {
      EXPECT_TRUE(all_nan(run.out));
    } else if (call == Call::backward) {
      for (const auto* gradient : {&run.d_x, &run.d_router_weights, &run.d_gate, &run.d_up, &run.d_down,
                                   &run.d_shared_gate, &run.d_shared_up, &run.d_shared_down}) {
        EXPECT_TRUE(all_nan(*gradient));
      }
    }
  }

  /// The sentence names rank, role, what it did, what it waited for, and how far that had come.
  void expect_sentence(const std::string& sentence) const {
    const Status status = workspace_.status();
    EXPECT_EQ(status.kind, StatusKind::deadline_exceeded);
    EXPECT_TRUE(status.rank >= 0 && status.rank < 4) << status.rank;
    EXPECT_GE(status.worker, 0);
    EXPECT_TRUE(status.role == "communication" || status.role == "compute") << status.role;
    EXPECT_FALSE(status.op.empty());
    const bool waits_for_a_flag = status.counter.find("flag of rank") != std::string::npos;
    EXPECT_EQ(waits_for_a_flag, status.tile < 0) << "flags have no tile: " << status.tile;
    EXPECT_FALSE(status.counter.empty());
    EXPECT_LT(status.seen, status.expected);
    EXPECT_LE(status.expected, 100u) << "a count of tasks, steps or passes, not how a word packs them";
    EXPECT_EQ(kDeadline, status.seconds);
    for (const std::string& part :
         {fmt::format("rank {}, {} worker {}: {}", status.rank, status.role, status.worker, status.op),
          fmt::format("waited {:g} s for {}", kDeadline, status.counter),
          fmt::format("reach {}", status.expected), fmt::format("saw {}", status.seen),
          std::string("reset()")}) {
      EXPECT_NE(std::string::npos, sentence.find(part)) << "'" << part << "' in: " << sentence;
    }
  }

  RunOptions run_ = patient(GetParam().macrobatch);
  LayerHarness harness_{problem(), run_};
  Workspace workspace_{run_.config, harness_.workspace_options()};
  Schedule schedule_ = harness_.schedule(workspace_);
  ForwardContext context_ = harness_.forward(workspace_, schedule_);
};

TEST_P(StalledPass, EndsInASentenceAndTheWorkspaceCanBeUsedAgain) {
  const Stall& stall = GetParam();
  set_faults(workspace_, stall.faults, kDeadline);
  const auto begin = std::chrono::steady_clock::now();
  const std::string sentence = sentence_of(stall.call);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), kDeadline);
  EXPECT_LE(took.count(), kPatience);
  expect_sentence(sentence);
  expect_outputs_are_nan(stall.call);

  set_faults(workspace_, {});
  for (const Call next : {Call::schedule, Call::forward, Call::recompute, Call::backward}) {
    EXPECT_NE(std::string::npos, sentence_of(next).find("reset() was not called")) << name(next);
  }
  EXPECT_THROW(workspace_.check(), DeadlineExceeded);

  workspace_.reset();
  workspace_.check();
  RunOptions fresh;
  fresh.config.schedule_capacity_multiplier = 1.0;
  const LayerRun expected = run_layer(problem(), fresh);
  harness_.backward(workspace_, schedule_, context_);  // both were made before the stall
  EXPECT_TRUE(same_bits(expected.d_x, harness_.results().d_x)) << "from the old context";
  const Schedule schedule = harness_.schedule(workspace_);
  const ForwardContext context = harness_.forward(workspace_, schedule);
  harness_.backward(workspace_, schedule, context);
  EXPECT_EQ("", differences(harness_.results(), expected, true));
}

std::vector<Stall> stalls() {
  std::vector<Stall> result;
  for (const Call call : {Call::schedule, Call::forward, Call::recompute, Call::backward}) {
    for (const int rank : {0, 2}) {
      if (small_tests() && rank == 0) continue;
      Stall never_ready{call, {}};
      never_ready.faults.never_ready_rank = rank;
      result.push_back(never_ready);
    }
    if (call == Call::schedule) continue;  // it has no compute workers
    for (const std::int64_t after : {0, 1}) {
      for (const std::int64_t macrobatch : {128, 131072}) {
        if (small_tests() && macrobatch != 128) continue;
        Stall stuck{call, {}, macrobatch};
        stuck.faults.stuck_rank = 0;
        stuck.faults.stuck_after = after;
        result.push_back(stuck);
      }
    }
  }
  return result;
}

std::string name_of(const ::testing::TestParamInfo<Stall>& info) { return describe(info.param); }
INSTANTIATE_TEST_SUITE_P(R2, StalledPass, ::testing::ValuesIn(stalls()), name_of);

/// main_grad of an abandoned pass is neither what it was nor what it should be: it says so.
TEST(R2StalledBackward, LeavesNoMainGradThatLooksRight) {
  RunOptions run = patient(128);
  run.main_grad = true;
  LayerHarness harness(problem(), run);
  Workspace workspace(run.config, harness.workspace_options());
  const Schedule schedule = harness.schedule(workspace);
  const ForwardContext context = harness.forward(workspace, schedule);
  group::FaultPlan faults;
  faults.stuck_rank = 1;
  faults.stuck_after = 5;
  set_faults(workspace, faults, kDeadline);
  EXPECT_THROW(harness.backward(workspace, schedule, context), DeadlineExceeded);
  const LayerRun result = harness.results();
  const auto untouched = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0f; });
  };
  EXPECT_TRUE(all_nan(result.d_gate) || untouched(result.d_gate));
  EXPECT_TRUE(all_nan(result.d_down) || untouched(result.d_down));
  EXPECT_TRUE(all_nan(result.d_shared_down) || untouched(result.d_shared_down));
}

/// A rank that comes late, but comes: with deadlines of 0 there is no too late.
TEST(R2LateRank, IsWaitedForWithoutADeadlineOrWithALongerOne) {
  for (const double deadline : {0.0, kPatience}) {
    RunOptions run = patient(128);
    run.config.arrival_deadline_seconds = deadline;
    run.config.progress_deadline_seconds = deadline;
    LayerHarness harness(problem(), run);
    Workspace workspace(run.config, harness.workspace_options());
    workspace.state().faults.late_rank = 2;
    workspace.state().faults.late_seconds = 0.2;
    const Schedule schedule = harness.schedule(workspace);
    const ForwardContext context = harness.forward(workspace, schedule);
    harness.backward(workspace, schedule, context);
    workspace.check();
    RunOptions fresh;
    fresh.config.schedule_capacity_multiplier = 1.0;
    EXPECT_EQ("", differences(harness.results(), run_layer(problem(), fresh), true));
  }
}

}  // namespace
}  // namespace mok::testing
