// SPDX-License-Identifier: Apache-2.0
// R2: a hang ends in an exception that says who waited for what, and the workspace can be used again.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"
#include "api/state.h"

namespace mok::testing {
namespace {

/// Deadlines short enough to be waited for in a test, and long enough for a good pass on a busy machine.
RunOptions impatient() {
  RunOptions options;
  options.config.arrival_deadline_seconds = 1;
  options.config.progress_deadline_seconds = 1;
  return options;
}

/// What a call throws as DeadlineExceeded.
template <class Call>
std::string deadline_of(const Call& call) {
  try {
    call();
  } catch (const DeadlineExceeded& error) {
    return error.what();
  }
  return "no deadline passed";
}

class DeadlineTest : public ::testing::Test {
 protected:
  [[nodiscard]] group::FaultPlan& faults() { return workspace_.state().faults; }

  void expect_usable_after_reset() {
    const std::string sentence = workspace_.status().sentence();
    const std::string again =
        "an earlier pass on this workspace failed and reset() was not called: " + sentence;
    EXPECT_EQ(deadline_of([&] { workspace_.check(); }), sentence);
    EXPECT_EQ(deadline_of([&] { static_cast<void>(harness_.schedule(workspace_)); }), again);
    EXPECT_EQ(deadline_of([&] { static_cast<void>(harness_.forward(workspace_, schedule_)); }), again);
    EXPECT_EQ(deadline_of([&] { static_cast<void>(harness_.recompute(workspace_, schedule_)); }), again);
    faults() = {};
    workspace_.reset();
    EXPECT_EQ(workspace_.status().kind, StatusKind::ok);
    EXPECT_NO_THROW(workspace_.check());
    harness_.backward(workspace_, schedule_,
                      harness_.forward(workspace_, schedule_));  // made before the failure
    EXPECT_EQ(differences(run_layer(problem_), harness_.results(), true), "");
  }

  reference::Problem problem_ = small_problem();
  LayerHarness harness_{problem_, impatient()};
  Workspace workspace_{impatient().config, harness_.workspace_options()};
  Schedule schedule_ = harness_.schedule(workspace_);
};

TEST_F(DeadlineTest, PeerThatNeverArrives) {
  faults().never_ready_rank = 1;
  const std::string sentence =
      deadline_of([&] { static_cast<void>(harness_.forward(workspace_, schedule_)); });
  const Status status = workspace_.status();
  EXPECT_EQ(sentence, status.sentence());
  EXPECT_EQ(status.kind, StatusKind::deadline_exceeded);
  EXPECT_EQ(status.role, "communication");
  EXPECT_EQ(status.tile, -1);
  EXPECT_EQ(status.counter, "ready flag of rank 1") << "the peer that did not come";
  EXPECT_EQ(status.seconds, 1);
  EXPECT_EQ(status.epoch, 2u);
  EXPECT_EQ(sentence,
            "rank " + std::to_string(status.rank) +
                ", communication worker 0: the start of the pass waited 1 s for ready flag of rank 1 to "
                "reach 2 and saw 1 (pass 2); the pass was abandoned on every rank and its outputs are NaN; "
                "call reset() to use the workspace again");
  for (const float value : harness_.results().out) ASSERT_TRUE(std::isnan(value));
  expect_usable_after_reset();
}

TEST_F(DeadlineTest, PeerThatIsStuck) {
  const ForwardContext context = harness_.forward(workspace_, schedule_);
  faults().stuck_rank = 1;
  const std::string sentence = deadline_of([&] { harness_.backward(workspace_, schedule_, context); });
  EXPECT_EQ(sentence, workspace_.status().sentence());
  EXPECT_EQ(workspace_.status().seconds, 1);
  EXPECT_FALSE(workspace_.status().op.empty());
  EXPECT_FALSE(workspace_.status().counter.empty());
  EXPECT_LT(workspace_.status().seen, workspace_.status().expected);
  const LayerRun run = harness_.results();
  for (const auto* values : {&run.d_x, &run.d_router_weights, &run.d_gate, &run.d_down, &run.d_shared_up}) {
    EXPECT_TRUE(std::all_of(values->begin(), values->end(), [](float value) { return std::isnan(value); }));
  }
  expect_usable_after_reset();
}

TEST_F(DeadlineTest, PeerThatNeverArrivesForASchedule) {
  faults().never_ready_rank = 0;
  const std::string sentence = deadline_of([&] { static_cast<void>(harness_.schedule(workspace_)); });
  EXPECT_NE(sentence.find("ready flag of rank 0"), std::string::npos) << sentence;
  expect_usable_after_reset();
}

// The ops that wait on a tile name it.
TEST(DeadlineSentence, NamesTheTile) {
  Status status;
  status.kind = StatusKind::deadline_exceeded;
  status.rank = 2;
  status.epoch = 9;
  status.worker = 4;
  status.role = "compute";
  status.op = "down";
  status.tile = 17;
  status.counter = "gate_up_done";
  status.expected = 3;
  status.seen = 1;
  status.seconds = 30;
  EXPECT_EQ(
      status.sentence(),
      "rank 2, compute worker 4: down of tile 17 waited 30 s for gate_up_done to reach 3 and saw 1 (pass 9); "
      "the pass was abandoned on every rank and its outputs are NaN; call reset() to use the workspace "
      "again");
}

}  // namespace
}  // namespace mok::testing
