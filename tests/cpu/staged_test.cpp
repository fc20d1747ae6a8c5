// SPDX-License-Identifier: Apache-2.0
// The staged runner: every task once, the same bits as all ops at once.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/features.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"

namespace mok::testing {
namespace {

struct Shape {
  const char* name;
  std::vector<std::int64_t> tokens;
  std::int64_t shared;
  std::int64_t macrobatch;
  reference::Routing routing;
};

class Staged : public ::testing::TestWithParam<Shape> {
 protected:
  Staged() {
    reference::ProblemOptions options;
    options.hidden = 192;
    options.intermediate = 64;
    options.shared_intermediate = GetParam().shared;
    options.experts = 8;
    options.tokens_per_rank = GetParam().tokens;
    options.routing = GetParam().routing;
    options.dropped_fraction = 0.1;
    problem_ = reference::random_problem(options);
    run_.config.minibatch_size = 128;
    run_.config.macrobatch_size = GetParam().macrobatch;
    run_.config.schedule_capacity_multiplier = 1;
  }

  [[nodiscard]] LayerRun staged() const {
    RunOptions run = run_;
    run.staged = true;
    return run_layer(problem_, run);
  }

  reference::Problem problem_;
  RunOptions run_;
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, Staged,
    ::testing::Values(Shape{"OneMacrobatch", {100, 60}, 64, 131072, reference::Routing::uniform},
                      Shape{"ManyMacrobatches", {300, 200}, 0, 256, reference::Routing::uniform},
                      Shape{"CutExpert", {400}, 128, 128, reference::Routing::one_expert},
                      Shape{"RankWithoutTokens", {0, 130, 0, 70}, 64, 128, reference::Routing::skewed}),
    [](const auto& instance) { return instance.param.name; });

// Outputs start as NaN, so a task that is left out shows.
TEST_P(Staged, GivesTheBitsOfTheFusedRun) {
  EXPECT_EQ(differences(run_layer(problem_, run_), staged(), true), "");
}

// A main_grad is added to: a weight gradient's task that ran twice would show too, in each of its segments.
TEST_P(Staged, AddsToMainGradOnce) {
  run_.main_grad = true;
  EXPECT_EQ(differences(run_layer(problem_, run_), staged(), true), "");
}

TEST_P(Staged, FromARecomputedContext) {
  const LayerRun saved = staged();
  run_.recompute = true;
  run_.backward_runs = 2;
  EXPECT_EQ(differences(saved, staged(), true), "");
}

// Staged passes read and clear no counter: what a fused pass finds afterwards must be as it left it.
TEST_P(Staged, MixesWithFusedPasses) {
  const LayerRun expected = run_layer(problem_, run_);
  RunOptions by_stages = run_;
  by_stages.staged = true;
  LayerHarness fused(problem_, run_);
  LayerHarness staged(problem_, by_stages);
  Workspace workspace(run_.config, fused.workspace_options());
  const Schedule schedule = fused.schedule(workspace);
  for (int step = 0; step < 3; ++step) {
    fused.backward(workspace, schedule, staged.forward(workspace, schedule));
    staged.backward(workspace, schedule, fused.forward(workspace, schedule));
    EXPECT_EQ(differences(expected, fused.results(), true), "") << "step " << step;
    EXPECT_EQ(differences(expected, staged.results(), true), "") << "step " << step;
  }
}

TEST(Features, ThisMachineRunsThisBuild) { EXPECT_STREQ(cpu::missing_features(), ""); }

}  // namespace
}  // namespace mok::testing
