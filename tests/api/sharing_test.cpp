// SPDX-License-Identifier: Apache-2.0
// One workspace and who may use it when: layers, threads, moves.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"
#include "api/state.h"

namespace mok::testing {
namespace {

std::string busy(const std::string& call) {
  return call +
         " was called on a workspace while another call on it was running; give each thread a workspace of "
         "its own, or call one after the other";
}

TEST(TwoThreads, EveryCallIsRefusedWhileAnotherRuns) {
  Refusals layer;
  Workspace& workspace = layer.workspace();
  // Held as a call on another thread would hold it.
  auto other_call = std::make_optional<api::InUse>(workspace.state(), "another call");
  EXPECT_EQ(refusal_of([&] { static_cast<void>(layer.harness().schedule(workspace)); }),
            busy("build_schedule"));
  EXPECT_EQ(refusal_of([&] { static_cast<void>(layer.harness().forward(workspace, layer.schedule())); }),
            busy("forward"));
  EXPECT_EQ(refusal_of([&] { static_cast<void>(layer.harness().recompute(workspace, layer.schedule())); }),
            busy("recompute_forward_context"));
  EXPECT_EQ(refusal_of([&] { layer.harness().backward(workspace, layer.schedule(), layer.context()); }),
            busy("backward"));
  EXPECT_EQ(refusal_of([&] { workspace.reserve({4, 128, 0}); }), busy("Workspace::reserve"));
  EXPECT_EQ(refusal_of([&] { workspace.reset(); }), busy("Workspace::reset"));
  other_call.reset();
  EXPECT_NO_THROW(static_cast<void>(layer.harness().forward(workspace, layer.schedule())));
}

// R13: both threads go on until they have met; who comes while the other is inside is told so, and nobody's
// result is touched by it.
TEST(TwoThreads, ARaceIsReportedAndHarmless) {
  constexpr int kPasses = 20;
  constexpr int kMostPasses = 20000;
  const reference::Problem problem = small_problem();
  const LayerRun alone = run_layer(problem);
  LayerHarness mine(problem, {});
  Workspace workspace({}, mine.workspace_options());
  const Schedule schedule = mine.schedule(workspace);
  LayerHarness theirs(problem, {});

  std::atomic<int> refused = 0;
  const auto forward_and_backward = [&](LayerHarness& harness) {
    std::optional<ForwardContext> context;
    const auto pass = [&](const auto& call) {
      for (std::string answer; answer != "nothing was refused";) {
        answer = refusal_of(call);
        if (answer.find("while another call on it was running") != std::string::npos) ++refused;
      }
    };
    for (int i = 0; i < kPasses || (refused == 0 && i < kMostPasses); ++i) {
      pass([&] { context = harness.forward(workspace, schedule); });
      pass([&] { harness.backward(workspace, schedule, *context); });
    }
  };
  std::thread other([&] { forward_and_backward(theirs); });
  forward_and_backward(mine);
  other.join();
  EXPECT_GT(refused, 0) << "the threads never met";
  EXPECT_EQ(differences(alone, mine.results(), true), "");
  EXPECT_EQ(differences(alone, theirs.results(), true), "");
}

TEST(TwoThreads, WorkspacesOfTheirOwn) {
  const reference::Problem problem = small_problem();
  const LayerRun alone = run_layer(problem);
  LayerRun theirs;
  std::thread other([&] { theirs = run_layer(problem); });
  const LayerRun mine = run_layer(problem);
  other.join();
  EXPECT_EQ(differences(alone, mine, true), "");
  EXPECT_EQ(differences(alone, theirs, true), "");
}

reference::Problem layer_of(std::int64_t intermediate, std::int64_t shared, std::int64_t experts) {
  reference::ProblemOptions options;
  options.seed = 7;
  options.intermediate = intermediate;
  options.shared_intermediate = shared;
  options.experts = experts;
  options.tokens_per_rank = {40, 24};
  return reference::random_problem(options);
}

// Layers of other widths and expert counts, forward one after the other and backward in the other order.
TEST(SeveralLayers, OnOneWorkspace) {
  const std::vector<reference::Problem> problems{layer_of(64, 0, 4), layer_of(192, 128, 4),
                                                 layer_of(128, 64, 8)};
  RunOptions options;
  options.config.minibatch_size = 128;
  options.config.macrobatch_size = 256;
  std::vector<std::unique_ptr<LayerHarness>> layers;
  for (const reference::Problem& problem : problems) {
    layers.push_back(std::make_unique<LayerHarness>(problem, options));
  }
  Workspace workspace(options.config, layers[0]->workspace_options());
  std::vector<Schedule> schedules;
  std::vector<ForwardContext> contexts;
  for (const auto& layer : layers) schedules.push_back(layer->schedule(workspace));
  for (std::size_t l = 0; l < layers.size(); ++l)
    contexts.push_back(layers[l]->forward(workspace, schedules[l]));
  for (std::size_t l = layers.size(); l-- > 0;) layers[l]->backward(workspace, schedules[l], contexts[l]);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    EXPECT_EQ(differences(run_layer(problems[l], options), layers[l]->results(), true), "") << "layer " << l;
  }
}

// The order of tasks is stored in units that do not depend on widths: one routing, layers of any width.
TEST(SeveralLayers, OnOneSchedule) {
  const reference::Problem narrow = layer_of(64, 0, 4);
  reference::Problem wide = layer_of(320, 128, 4);
  wide.ranks = narrow.ranks;
  LayerHarness first(narrow, {});
  LayerHarness second(wide, {});
  Workspace workspace({}, first.workspace_options());
  const Schedule schedule = first.schedule(workspace);
  const ForwardContext of_first = first.forward(workspace, schedule);
  const ForwardContext of_second = second.forward(workspace, schedule);
  first.backward(workspace, schedule, of_first);
  second.backward(workspace, schedule, of_second);
  EXPECT_EQ(differences(run_layer(narrow), first.results(), true), "");
  EXPECT_EQ(differences(run_layer(wide), second.results(), true), "");
}

// Pipeline stages: several contexts of one layer alive at once, each with a schedule of its own.
TEST(SeveralContexts, AreIndependent) {
  const reference::Problem first = layer_of(64, 64, 4);
  reference::Problem second = first;
  std::swap(second.ranks[0].x, second.ranks[0].grad_output);
  LayerHarness one(first, {});
  LayerHarness two(second, {});
  Workspace workspace({}, one.workspace_options());
  const Schedule schedule_one = one.schedule(workspace);
  const Schedule schedule_two = two.schedule(workspace);
  const ForwardContext context_one = one.forward(workspace, schedule_one);
  const ForwardContext context_two = two.forward(workspace, schedule_two);
  one.backward(workspace, schedule_one, context_one);
  two.backward(workspace, schedule_two, context_two);
  EXPECT_EQ(differences(run_layer(first), one.results(), true), "");
  EXPECT_EQ(differences(run_layer(second), two.results(), true), "");
}

TEST(Moving, AWorkspaceKeepsItsSchedulesAndContexts) {
  const reference::Problem problem = small_problem();
  LayerHarness harness(problem, {});
  Workspace first({}, harness.workspace_options());
  const Schedule schedule = harness.schedule(first);
  const ForwardContext context = harness.forward(first, schedule);
  Workspace second(std::move(first));
  harness.backward(second, schedule, context);
  EXPECT_EQ(differences(run_layer(problem), harness.results(), true), "");
}

TEST(Moving, AMovedFromWorkspaceCanBeDestroyedOrAssigned) {
  auto first = std::make_unique<Workspace>(Config{}, WorkspaceOptions{1, 8, 64, 1, {}});
  Workspace second(std::move(*first));
  first.reset();

  Workspace third({}, {1, 16, 64, 1, {}});
  third = std::move(second);
  EXPECT_EQ(third.options().max_tokens, 8);
  second = Workspace({}, {1, 4, 64, 1, {}});
  EXPECT_EQ(second.options().max_tokens, 4);
  EXPECT_NO_THROW(second.check());
}

// Schedules and contexts are cheap handles: copies stay usable when the original goes.
TEST(Moving, HandlesShareWhatTheyStandFor) {
  const reference::Problem problem = small_problem();
  LayerHarness harness(problem, {});
  Workspace workspace({}, harness.workspace_options());
  auto schedule = std::make_optional(harness.schedule(workspace));
  auto context = std::make_optional(harness.forward(workspace, *schedule));
  const Schedule schedule_copy = *schedule;
  const ForwardContext context_copy = *context;
  schedule.reset();
  context.reset();
  harness.backward(workspace, schedule_copy, context_copy);
  EXPECT_EQ(differences(run_layer(problem), harness.results(), true), "");
}

}  // namespace
}  // namespace mok::testing
