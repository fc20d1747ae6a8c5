// SPDX-License-Identifier: Apache-2.0
// R5: the hunt for ordering faults. However the workers of all ranks interleave, every run has the same bits.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

/// Several macrobatches on rank 0, few rows elsewhere: much ring reuse, and ranks that run far ahead of
/// another.
reference::Problem make_problem(std::uint64_t seed = 31) {
  reference::ProblemOptions options = mixed_problem({140, 90, 0, 61}, seed);
  options.hidden = 64;
  options.intermediate = 128;
  return reference::random_problem(options);
}

RunOptions shuffled(std::uint64_t seed, std::int64_t macrobatch) {
  RunOptions run;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = macrobatch;
  run.config.cpu.timing_seed = seed;
  run.config.cpu.num_compute_workers = 2;
  run.config.fwd_num_comm_sms = 2;
  run.config.bwd_num_comm_sms = 2;
  return run;
}

LayerRun staged(const reference::Problem& problem) {
  RunOptions run = shuffled(0, 131072);
  run.staged = true;
  return run_layer(problem, run);
}

TEST(ShuffledTiming, GivesTheSameBitsForEverySeed) {
  const reference::Problem problem = make_problem();
  const LayerRun expected = staged(problem);
  const std::uint64_t seeds = small_tests() ? 4 : 40;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    RunOptions run = shuffled(seed, seed % 2 == 0 ? 128 : 256);
    run.recompute = seed % 3 == 0;
    run.config.cpu.num_compute_workers = 1 + static_cast<int>(seed % 4);
    ASSERT_EQ("", differences(run_layer(problem, run), expected, true)) << "seed " << seed;
  }
}

TEST(ShuffledTiming, AddsToMainGradOnceForEverySeed) {
  const reference::Problem problem = make_problem();
  RunOptions one_by_one = shuffled(0, 131072);
  one_by_one.staged = true;
  one_by_one.main_grad = true;
  const LayerRun expected = run_layer(problem, one_by_one);
  const std::uint64_t seeds = small_tests() ? 2 : 10;
  for (std::uint64_t seed = 101; seed < 101 + seeds; ++seed) {
    RunOptions run = shuffled(seed, 128);
    run.main_grad = true;
    ASSERT_EQ("", differences(run_layer(problem, run), expected, true)) << "seed " << seed;
  }
}

/// Steps with other routings follow each other on one workspace: what a slow rank still does in one pass must
/// not meet what a fast one does in the next.
TEST(ShuffledTiming, OfStepsInARowOnOneWorkspaceGivesTheSameBits) {
  const std::uint64_t steps = small_tests() ? 3 : 16;
  std::vector<reference::Problem> problems;
  for (std::uint64_t step = 0; step < steps; ++step) problems.push_back(make_problem(41 + step));
  const RunOptions run = shuffled(7, 128);
  Workspace workspace(run.config, LayerHarness(problems[0], run).workspace_options());
  for (const reference::Problem& problem : problems) {
    LayerHarness harness(problem, run);
    const Schedule schedule = harness.schedule(workspace);
    const ForwardContext context = harness.forward(workspace, schedule);
    static_cast<void>(harness.recompute(workspace, schedule));
    harness.backward(workspace, schedule, context);
    harness.backward(workspace, schedule, context);
    ASSERT_EQ("", differences(harness.results(), staged(problem), true));
  }
}

TEST(RepeatedRuns, AHundredOfThemGiveTheSameBits) {
  const reference::Problem problem = make_problem();
  const LayerRun expected = staged(problem);
  RunOptions run = shuffled(0, 256);
  LayerHarness harness(problem, run);
  Workspace workspace(run.config, harness.workspace_options());
  const int runs = small_tests() ? 10 : 100;
  for (int i = 0; i < runs; ++i) {
    const Schedule schedule = harness.schedule(workspace);
    const ForwardContext context = harness.forward(workspace, schedule);
    harness.backward(workspace, schedule, context);
    ASSERT_EQ("", differences(harness.results(), expected, true)) << "run " << i;
  }
}

TEST(ManyWorkers, MoreThanCoresAndMoreThanTasksGiveTheSameBits) {
  const reference::Problem problem = make_problem();
  const LayerRun expected = staged(problem);
  RunOptions run = shuffled(0, 128);
  run.config.cpu.num_compute_workers = small_tests() ? 8 : 32;
  run.config.fwd_num_comm_sms = small_tests() ? 5 : 17;
  run.config.bwd_num_comm_sms = small_tests() ? 4 : 9;
  for (const std::uint64_t seed : {0u, 5u}) {
    run.config.cpu.timing_seed = seed;
    EXPECT_EQ("", differences(run_layer(problem, run), expected, true)) << "seed " << seed;
  }
}

/// Eight ranks of one expert each, most without rows in a given step.
TEST(ManyRanks, OfWhichMostHaveNothingToDoGiveTheBitsOfOne) {
  reference::ProblemOptions options = mixed_problem({0, 0, 0, 200, 0, 0, 1, 0}, 61);
  options.routing = reference::Routing::one_expert;
  for (const std::int64_t hot : {0, 5}) {
    options.hot_expert = hot;
    const reference::Problem problem = reference::random_problem(options);
    const LayerRun expected = staged(split(problem, {201}));
    EXPECT_EQ("", differences(run_layer(problem, shuffled(3, 128)), expected, false));
  }
}

}  // namespace
}  // namespace mok::testing
