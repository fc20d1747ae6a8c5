// SPDX-License-Identifier: Apache-2.0
// R3: routing that cannot be run is reported by name and moves nothing: outputs are NaN, main_grad is as it
// was, and the next good step gives the bits of a fresh workspace.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mok/mok.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

constexpr std::int64_t kTokens = 90;

reference::ProblemOptions good_options() { return mixed_problem({kTokens, 40, 0, 77}, 81); }

/// All routes of all tokens go to experts of rank 0: 4 * 90 * 3 rows, where a multiplier of 0.25 leaves 2 *
/// 90 * 3.
reference::Problem all_to_rank_0() {
  reference::ProblemOptions options = good_options();
  options.tokens_per_rank = {kTokens, kTokens, kTokens, kTokens};
  options.dropped_fraction = 0;
  reference::Problem problem = reference::random_problem(options);
  for (reference::RankInput& rank : problem.ranks) {
    for (std::int32_t& id : rank.topk_experts) id = id % 3 == 0 ? 0 : 1;
  }
  return problem;
}

RunOptions with_multiplier(double multiplier, bool main_grad = false) {
  RunOptions run;
  run.config.schedule_capacity_multiplier = multiplier;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = 256;
  run.main_grad = main_grad;
  return run;
}

Workspace make_workspace(double multiplier) {
  return {with_multiplier(multiplier).config, {4, kTokens, good_options().hidden, 3, {}}};
}

bool all_nan(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

/// What check() throws, which must be a RoutingError.
std::string routing_error(const Workspace& workspace) {
  try {
    workspace.check();
  } catch (const RoutingError& error) {
    return error.what();
  }
  ADD_FAILURE() << "check() did not throw";
  return "";
}

void expect_in(const std::string& sentence, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(std::string::npos, sentence.find(part)) << "'" << part << "' in: " << sentence;
  }
}

/// Forward, recompute and backward on a schedule that cannot be run: no exception, NaN everywhere.
void expect_nan_everywhere(LayerHarness& harness, Workspace& workspace, const Schedule& schedule) {
  const ForwardContext context = harness.forward(workspace, schedule);
  static_cast<void>(harness.recompute(workspace, schedule));
  harness.backward(workspace, schedule, context);
  const LayerRun run = harness.results();
  for (const auto* tensor : {&run.out, &run.d_x, &run.d_router_weights, &run.d_gate, &run.d_up, &run.d_down,
                             &run.d_shared_gate, &run.d_shared_up, &run.d_shared_down}) {
    EXPECT_TRUE(all_nan(*tensor));
  }
}

void expect_next_good_step_works(Workspace& workspace, double multiplier) {
  const reference::Problem problem = reference::random_problem(good_options());
  LayerHarness harness(problem, with_multiplier(multiplier));
  const Schedule schedule = harness.schedule(workspace);
  workspace.check();
  const ForwardContext context = harness.forward(workspace, schedule);
  harness.backward(workspace, schedule, context);
  EXPECT_EQ("", differences(harness.results(), run_layer(problem, with_multiplier(1.0)), true));
}

TEST(R3Overflow, WritesNaNAndSaysWhichRankExpertAndMultiplier) {
  const reference::Problem problem = all_to_rank_0();
  Workspace workspace = make_workspace(0.25);
  LayerHarness harness(problem, with_multiplier(0.25));
  const Schedule schedule = harness.schedule(workspace);
  expect_nan_everywhere(harness, workspace, schedule);
  const Status status = workspace.status();
  EXPECT_EQ(StatusKind::capacity_overflow, status.kind);
  EXPECT_EQ(0, status.rank);
  EXPECT_EQ(1, status.expert) << "got two thirds of the routes";
  EXPECT_EQ(4 * kTokens * 3, status.rows);
  EXPECT_EQ(2 * kTokens * 3, status.capacity);
  expect_in(
      routing_error(workspace),
      {"rank 0", fmt::format("{} routed rows", status.rows), fmt::format("the {} that", status.capacity),
       "fullest expert is 1", fmt::format("schedule_capacity_multiplier of {:.4g}", status.multiplier)});

  // With the multiplier that it names the same routing runs.
  EXPECT_EQ("", differences(run_layer(problem, with_multiplier(status.multiplier)),
                            run_layer(split(problem, {4 * kTokens}), with_multiplier(1.0)), false));
  expect_next_good_step_works(workspace, 0.25);
}

TEST(R3Overflow, OfThreeRanksRowsNamesAMultiplierThatWouldDo) {
  reference::Problem problem = all_to_rank_0();
  problem.ranks[3].topk_experts.assign(problem.ranks[3].topk_experts.size(), -1);
  Workspace workspace = make_workspace(0.5);
  LayerHarness harness(problem, with_multiplier(0.5));
  static_cast<void>(harness.schedule(workspace));
  EXPECT_THROW(workspace.check(), RoutingError);
  EXPECT_EQ(0.75, workspace.status().multiplier);
  EXPECT_NO_THROW(static_cast<void>(run_layer(problem, with_multiplier(0.75))));
}

TEST(R3Overflow, LeavesMainGradUntouched) {
  const reference::Problem problem = all_to_rank_0();
  Workspace workspace = make_workspace(0.25);
  LayerHarness harness(problem, with_multiplier(0.25, true));
  const Schedule schedule = harness.schedule(workspace);
  const ForwardContext context = harness.forward(workspace, schedule);
  const std::vector<BackwardInput> inputs = harness.backward_inputs();
  const auto for_each_gradient = [&](const auto& visit) {
    for (const BackwardInput& input : inputs) {
      for (const TensorView* view : {&input.d_routed.gate, &input.d_routed.up, &input.d_routed.down,
                                     &input.d_shared.gate, &input.d_shared.up, &input.d_shared.down}) {
        std::int64_t elements = 1;
        for (int d = 0; d < view->dims; ++d) elements *= view->shape[static_cast<std::size_t>(d)];
        for (std::int64_t i = 0; i < elements; ++i) visit(static_cast<float*>(view->data)[i], i);
      }
    }
  };
  for_each_gradient([](float& value, std::int64_t i) { value = static_cast<float>(i) - 100.5f; });
  backward(workspace, schedule, context, inputs, harness.pass_options());
  std::int64_t changed = 0;
  for_each_gradient([&](const float& value, std::int64_t i) {
    if (value != static_cast<float>(i) - 100.5f) ++changed;
  });
  EXPECT_EQ(0, changed);
  EXPECT_TRUE(all_nan(harness.results().d_x));
  EXPECT_THROW(workspace.check(), RoutingError);
}

struct BadId {
  const char* name;
  std::int64_t id;
  bool int64;
};

class ExpertIdOutOfRange : public ::testing::TestWithParam<BadId> {};

TEST_P(ExpertIdOutOfRange, WritesNaNAndSaysWhoBroughtIt) {
  const BadId bad = GetParam();
  const reference::Problem problem = reference::random_problem(good_options());
  Workspace workspace = make_workspace(0.25);
  RunOptions run = with_multiplier(0.25);
  LayerHarness harness(problem, run);
  std::vector<std::vector<std::int64_t>> wide;
  std::vector<ConstTensorView> ids;
  for (const reference::RankInput& rank : problem.ranks)
    wide.emplace_back(rank.topk_experts.begin(), rank.topk_experts.end());
  std::vector<std::vector<std::int32_t>> narrow;
  wide[3][5 * 3 + 2] = bad.id;
  for (const std::vector<std::int64_t>& rank : wide) {
    narrow.emplace_back();
    for (const std::int64_t id : rank) narrow.back().push_back(static_cast<std::int32_t>(id));
  }
  for (std::size_t r = 0; r < wide.size(); ++r) {
    const std::int64_t tokens = problem.ranks[r].tokens;
    ids.push_back(bad.int64 ? ConstTensorView(wide[r].data(), {tokens, 3})
                            : ConstTensorView(narrow[r].data(), {tokens, 3}));
  }
  const Schedule schedule = build_schedule(workspace, ids, static_cast<int>(problem.experts));
  expect_nan_everywhere(harness, workspace, schedule);
  const Status status = workspace.status();
  EXPECT_EQ(StatusKind::expert_id_out_of_range, status.kind);
  EXPECT_EQ(3, status.rank);
  EXPECT_EQ(5, status.token);
  EXPECT_EQ(2, status.choice);
  expect_in(routing_error(workspace), {"rank 3", "token 5", "choice 2", "from 0 to 7"});
  if (bad.id == static_cast<std::int32_t>(bad.id)) {
    EXPECT_EQ(bad.id, status.expert_id);
    expect_in(routing_error(workspace), {fmt::format("expert id {}", bad.id)});
  }
  expect_next_good_step_works(workspace, 0.25);
}

std::string name_of(const ::testing::TestParamInfo<BadId>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(
    R3, ExpertIdOutOfRange,
    ::testing::Values(BadId{"TheNumberOfExperts", 8, false}, BadId{"TheNumberOfExpertsInt64", 8, true},
                      BadId{"MinusTwo", -2, false}, BadId{"MinusTwoInt64", -2, true},
                      BadId{"LargestInt32", 0x7FFFFFFF, false}, BadId{"LowestInt32", -0x7FFFFFFFLL - 1, true},
                      // The lower 32 bits alone would be a good id, or -1.
                      BadId{"GoodInItsLower32Bits", (std::int64_t{1} << 32) + 3, true},
                      BadId{"MinusOneInItsLower32Bits", 0xFFFFFFFFLL, true},
                      BadId{"LargestInt64", 0x7FFFFFFFFFFFFFFFLL, true},
                      BadId{"GoodInItsLower32BitsNegative", -(std::int64_t{1} << 40) + 1, true}),
    name_of);

}  // namespace
}  // namespace mok::testing
