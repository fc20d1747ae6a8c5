// SPDX-License-Identifier: Apache-2.0
// Schedules, contexts and limits must belong together.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"
#include "api/state.h"

namespace mok::testing {
namespace {

using ForwardInputs = std::vector<ForwardInput>;
using BackwardInputs = std::vector<BackwardInput>;

std::string number(std::uint64_t id) { return std::to_string(id); }

TEST(Belonging, ScheduleOfAnotherWorkspace) {
  Refusals layer;
  Refusals other;
  const std::string sentence =
      "schedule was built on another workspace (number " + number(other.workspace().state().id) +
      "); it must be built on this one (number " + number(layer.workspace().state().id) + ")";
  const std::vector<ForwardInput> forward_inputs = layer.harness().forward_inputs();
  layer.expect_refused(
      sentence, [&] { static_cast<void>(forward(layer.workspace(), other.schedule(), forward_inputs)); });
  layer.expect_refused(
      sentence, [&] { static_cast<void>(layer.harness().recompute(layer.workspace(), other.schedule())); });
  const std::vector<BackwardInput> backward_inputs = layer.harness().backward_inputs();
  layer.expect_refused(
      sentence, [&] { backward(layer.workspace(), other.schedule(), layer.context(), backward_inputs); });
}

TEST(Belonging, ContextOfAnotherWorkspace) {
  Refusals layer;
  Refusals other;
  const std::vector<BackwardInput> inputs = layer.harness().backward_inputs();
  layer.expect_refused("context was made on another workspace (number " +
                           number(other.workspace().state().id) + "); it must be made on this one (number " +
                           number(layer.workspace().state().id) + ")",
                       [&] { backward(layer.workspace(), layer.schedule(), other.context(), inputs); });
}

// A schedule of the same ids is another schedule all the same.
TEST(Belonging, ContextOfAnotherSchedule) {
  Refusals layer;
  const Schedule second = layer.harness().schedule(layer.workspace());
  const std::vector<BackwardInput> inputs = layer.harness().backward_inputs();
  layer.expect_refused("context was made from another schedule (number " +
                           number(layer.schedule().state().id) +
                           "); it must be made from the one given (number " + number(second.state().id) + ")",
                       [&] { backward(layer.workspace(), second, layer.context(), inputs); });
}

TEST(SwigluLimit, OutOfRange) {
  Refusals layer;
  const std::vector<std::pair<float, std::string>> bads{{0.0f, "0"},
                                                        {-1.5f, "-1.5"},
                                                        {std::numeric_limits<float>::quiet_NaN(), "nan"},
                                                        {std::numeric_limits<float>::infinity(), "inf"},
                                                        {-std::numeric_limits<float>::infinity(), "-inf"}};
  for (const auto& [bad, printed] : bads) {
    const std::string sentence =
        "swiglu_limit is " + printed + "; it must be a finite number greater than 0, or left out for none";
    layer.expect_forward(sentence, [bad = bad](ForwardInputs& /*inputs*/, PassOptions& options) {
      options.swiglu_limit = bad;
    });
    layer.expect_backward(sentence, [bad = bad](BackwardInputs& /*inputs*/, PassOptions& options) {
      options.swiglu_limit = bad;
    });
  }
}

TEST(SwigluLimit, BackwardWithAnother) {
  Refusals layer;
  layer.expect_backward(
      "swiglu_limit is 7; it must be the forward pass's (none) or left out",
      [](BackwardInputs& /*inputs*/, PassOptions& options) { options.swiglu_limit = 7.0f; });

  reference::Problem limited = small_problem();
  limited.swiglu_limit = 0.75;
  Refusals clamped({}, limited);
  clamped.expect_backward(
      "swiglu_limit is 7; it must be the forward pass's (0.75) or left out",
      [](BackwardInputs& /*inputs*/, PassOptions& options) { options.swiglu_limit = 7.0f; });
}

// The argument overrides the config, and backward follows the context without being told.
TEST(SwigluLimit, BackwardTakesTheContexts) {
  reference::Problem limited = small_problem();
  limited.swiglu_limit = 0.75;
  const LayerRun told = run_layer(limited);

  RunOptions options;
  options.config.swiglu_limit = 3.0f;
  LayerHarness harness(limited, options);
  Workspace workspace(options.config, harness.workspace_options());
  const Schedule schedule = harness.schedule(workspace);
  const ForwardContext context = harness.forward(workspace, schedule);
  const std::vector<BackwardInput> inputs = harness.backward_inputs();
  backward(workspace, schedule, context, inputs);  // no limit given, and the config has another
  EXPECT_EQ(differences(told, harness.results(), true), "");
}

TEST(SwigluLimit, ConfigsHoldsWhereNoneIsGiven) {
  reference::Problem problem = small_problem();
  RunOptions by_config;
  by_config.config.swiglu_limit = 0.75f;
  const LayerRun from_config = run_layer(problem, by_config);
  EXPECT_NE(differences(from_config, run_layer(problem), true), "") << "the limit cuts off nothing";
  problem.swiglu_limit = 0.75;
  EXPECT_EQ(differences(from_config, run_layer(problem), true), "");
}

TEST(Recompute, ReadsNoDownWeights) {
  Refusals layer;
  std::vector<RecomputeInput> inputs;
  for (const ForwardInput& input : layer.harness().forward_inputs()) {
    inputs.push_back({input.x, input.routed, input.shared});
    inputs.back().routed.down = {};
    inputs.back().shared.down = {};
  }
  const ForwardContext context = recompute_forward_context(layer.workspace(), layer.schedule(), inputs);
  EXPECT_EQ(context.nbytes(), layer.context().nbytes());
  layer.harness().backward(layer.workspace(), layer.schedule(), context);
}

TEST(Recompute, RefusesAsForwardDoes) {
  Refusals layer;
  std::vector<RecomputeInput> inputs;
  for (const ForwardInput& input : layer.harness().forward_inputs()) {
    inputs.push_back({input.x, input.routed, input.shared});
  }
  inputs[1].routed.up.dtype = DType::f32;
  layer.expect_refused("inputs[1].routed.up is f32; it must be bf16", [&] {
    static_cast<void>(recompute_forward_context(layer.workspace(), layer.schedule(), inputs));
  });
}

}  // namespace
}  // namespace mok::testing
