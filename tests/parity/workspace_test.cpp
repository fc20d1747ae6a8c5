// SPDX-License-Identifier: Apache-2.0
// R1: what earlier steps and other layers left in a workspace never shows: every step gives the bits that it
// gives on a workspace of its own.
#include <cstdint>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <gtest/gtest.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/poison.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t kMaxTokens = 220;

RunOptions small_batches() {
  RunOptions run;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = 256;
  return run;
}

Workspace make_workspace(const reference::Problem& problem) {
  return {small_batches().config,
          {static_cast<int>(problem.ranks.size()),
           kMaxTokens,
           problem.hidden,
           static_cast<int>(problem.topk),
           {}}};
}

/// Steps whose routings have little in common: many rows, all rows on one rank, no tokens on two ranks, no
/// routes.
std::vector<reference::Problem> different_steps() {
  std::vector<reference::ProblemOptions> steps = {
      mixed_problem({kMaxTokens, 40, 100, 0}, 11), mixed_problem({100, 60, 128, 129}, 12),
      mixed_problem({0, 200, 0, 3}, 13), mixed_problem({20, 30, 40, 50}, 14),
      mixed_problem({128, 1, kMaxTokens, 7}, 15)};
  steps[1].routing = reference::Routing::one_expert;
  steps[1].hot_expert = 6;
  steps[3].dropped_fraction = 1.0;
  std::vector<reference::Problem> problems;
  for (const reference::ProblemOptions& options : steps)
    problems.push_back(reference::random_problem(options));
  return problems;
}

class DirtyBuffers : public ::testing::TestWithParam<bool> {};

TEST_P(DirtyBuffers, OfStepsWithOtherRoutingsDoNotShow) {
  const bool poisoned = GetParam();
  const std::vector<reference::Problem> steps = different_steps();
  Workspace workspace = make_workspace(steps[0]);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    LayerHarness harness(steps[i], small_batches());
    const Schedule schedule = harness.schedule(workspace);
    workspace.check();
    const ForwardContext context = harness.forward(workspace, schedule);
    if (poisoned) poison_workspace(workspace);
    harness.backward(workspace, schedule, context);
    if (poisoned) poison_workspace(workspace);
    EXPECT_EQ("", differences(harness.results(), run_layer(steps[i], small_batches()), true)) << "step " << i;
  }
}

TEST_P(DirtyBuffers, OfARecomputedContextDoNotShow) {
  const bool poisoned = GetParam();
  const std::vector<reference::Problem> steps = different_steps();
  Workspace workspace = make_workspace(steps[0]);
  for (const reference::Problem& step : steps) {
    LayerHarness harness(step, small_batches());
    const Schedule schedule = harness.schedule(workspace);
    static_cast<void>(harness.forward(workspace, schedule));
    if (poisoned) poison_workspace(workspace);
    const ForwardContext context = harness.recompute(workspace, schedule);
    if (poisoned) poison_workspace(workspace);
    harness.backward(workspace, schedule, context);
    EXPECT_EQ("", differences(harness.results(), run_layer(step, small_batches()), true));
  }
}

std::string name_of(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "FilledWithNaN" : "AsTheStepBeforeLeftThem";
}
INSTANTIATE_TEST_SUITE_P(R1, DirtyBuffers, ::testing::Bool(), name_of);

#if defined(M_PERTURB)
/// Contexts and workspaces are not cleared when they are made: nothing of them is read before it is written.
TEST(R1FreshMemory, NeedNotBeClear) {
  const reference::Problem problem = different_steps()[0];
  const LayerRun expected = run_layer(problem, small_batches());
  // The allocator fills what it gives and what it takes back; those of the sanitizers have means of their
  // own.
  if (mallopt(M_PERTURB, 1) != 1) GTEST_SKIP() << "this build's allocator fills no memory when asked to";
  const LayerRun run = run_layer(problem, small_batches());
  mallopt(M_PERTURB, 0);
  EXPECT_EQ("", differences(run, expected, true));
}
#endif

/// Problems of two kinds of layer that see the same tokens, as layers of one model do.
std::vector<reference::Problem> two_layers(std::int64_t second_experts) {
  reference::ProblemOptions options = mixed_problem({150, 0, 200, 33}, 16);
  std::vector<reference::Problem> layers = {reference::random_problem(options)};
  options.intermediate = 64;
  options.shared_intermediate = 128;
  options.experts = second_experts;
  options.seed = 17;
  layers.push_back(reference::random_problem(options));
  return layers;
}

TEST(SeveralContexts, OfTwoLayersOnOneWorkspaceStayApart) {
  for (const bool first_comes_back_first : {false, true}) {
    const std::vector<reference::Problem> layers = two_layers(4);
    Workspace workspace = make_workspace(layers[0]);
    LayerHarness first(layers[0], small_batches());
    LayerHarness second(layers[1], small_batches());
    const Schedule first_schedule = first.schedule(workspace);
    const Schedule second_schedule = second.schedule(workspace);
    const ForwardContext first_context = first.forward(workspace, first_schedule);
    const ForwardContext second_context = second.forward(workspace, second_schedule);
    if (first_comes_back_first) first.backward(workspace, first_schedule, first_context);
    second.backward(workspace, second_schedule, second_context);
    if (!first_comes_back_first) first.backward(workspace, first_schedule, first_context);
    EXPECT_EQ("", differences(first.results(), run_layer(layers[0], small_batches()), true));
    EXPECT_EQ("", differences(second.results(), run_layer(layers[1], small_batches()), true));
  }
}

TEST(SeveralContexts, OfLayersOfAnyWidthMayShareASchedule) {
  std::vector<reference::Problem> layers = two_layers(8);
  for (std::size_t r = 0; r < layers[0].ranks.size(); ++r) {
    layers[1].ranks[r].topk_experts = layers[0].ranks[r].topk_experts;
  }
  Workspace workspace = make_workspace(layers[0]);
  LayerHarness first(layers[0], small_batches());
  LayerHarness second(layers[1], small_batches());
  const Schedule schedule = first.schedule(workspace);
  const ForwardContext first_context = first.forward(workspace, schedule);
  const ForwardContext second_context = second.forward(workspace, schedule);
  second.backward(workspace, schedule, second_context);
  first.backward(workspace, schedule, first_context);
  EXPECT_EQ("", differences(first.results(), run_layer(layers[0], small_batches()), true));
  EXPECT_EQ("", differences(second.results(), run_layer(layers[1], small_batches()), true));
}

/// Micro-batches of a pipeline: all forward passes first, then backward in either order.
TEST(SeveralContexts, OfOneLayerStayApart) {
  std::vector<reference::Problem> batches = different_steps();
  for (reference::Problem& batch : batches) {
    batch.gate = batches[0].gate;
    batch.up = batches[0].up;
    batch.down = batches[0].down;
  }
  Workspace workspace = make_workspace(batches[0]);
  std::vector<LayerHarness> harnesses;
  for (const reference::Problem& batch : batches) harnesses.emplace_back(batch, small_batches());
  std::vector<Schedule> schedules;
  std::vector<ForwardContext> contexts;
  for (LayerHarness& harness : harnesses) {
    schedules.push_back(harness.schedule(workspace));
    contexts.push_back(harness.forward(workspace, schedules.back()));
  }
  for (const std::size_t i : {2u, 0u, 4u, 3u, 1u}) {
    poison_workspace(workspace);
    harnesses[i].backward(workspace, schedules[i], contexts[i]);
    EXPECT_EQ("", differences(harnesses[i].results(), run_layer(batches[i], small_batches()), true)) << i;
  }
}

/// Staged and fused passes may follow each other: they leave flags and counters alike.
TEST(OneWorkspace, TakesStagedAndFusedPassesInTurn) {
  const reference::Problem problem = different_steps()[0];
  const LayerRun expected = run_layer(problem, small_batches());
  Workspace workspace = make_workspace(problem);
  LayerHarness harness(problem, small_batches());
  const Schedule schedule = harness.schedule(workspace);
  for (const bool staged_first : {true, false, true}) {
    const std::vector<ForwardInput> forward_inputs = harness.forward_inputs();
    PassOptions options = harness.pass_options();
    options.staged = staged_first;
    const ForwardContext context = forward(workspace, schedule, forward_inputs, options);
    const std::vector<BackwardInput> backward_inputs = harness.backward_inputs();
    options.staged = !staged_first;
    backward(workspace, schedule, context, backward_inputs, options);
    EXPECT_EQ("", differences(harness.results(), expected, true));
  }
}

}  // namespace
}  // namespace mok::testing
