// SPDX-License-Identifier: Apache-2.0
// The forward pass on the GPU: within the derived bound of the float64 reference, and the same bits however
// it is run.
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/support/gpu_layer.h"
#include "reference/bound.h"
#include "reference/random_problem.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

using reference::ProblemOptions;
using reference::Routing;

struct Case {
  const char* name;
  ProblemOptions problem;
  Config config = {};
  std::int64_t expert_gap = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Case make(const char* name, ProblemOptions problem, const std::function<void(Case&)>& change = {}) {
  Case result{name, std::move(problem)};
  if (change) change(result);
  return result;
}

void expect_within_bound(const reference::Problem& problem, const reference::Candidate& candidate) {
  reference::Options options;
  const reference::Result exact = reference::forward(problem, options);
  options.rounding = reference::Rounding::section2;
  const reference::Result rounded = reference::forward(problem, options);
  const auto reports = reference::compare_all(problem, exact, rounded, candidate);
  EXPECT_TRUE(reference::all_pass(reports)) << reference::describe(reports);
}

class GpuForward : public ::testing::TestWithParam<Case> {};

TEST_P(GpuForward, MeetsTheReferenceFusedAndStaged) {
  MOK_REQUIRE_GPU();
  const reference::Problem problem = reference::random_problem(GetParam().problem);
  GpuLayer layer(problem, GetParam().expert_gap);
  Workspace workspace(GetParam().config, layer.workspace_options());
  const Schedule schedule = layer.schedule(workspace);
  workspace.check();
  static_cast<void>(layer.forward(workspace, schedule, true));
  expect_within_bound(problem, layer.candidate());
  const std::vector<float> staged = layer.out();
  for (int run = 0; run < 3; ++run) {
    static_cast<void>(layer.forward(workspace, schedule));
    EXPECT_EQ("", first_difference(staged, layer.out())) << "run " << run;
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

// (T, H, I, E, K, R) throughout.
INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuForward,
    ::testing::Values(
        make("T512H256I128E8K2R1", shape(512, 256, 128, 8, 2, 1)),
        make("T333H320I192E6K3R1", shape(333, 320, 192, 6, 3, 1)),
        make("T512H256I128E8K2R4", shape(512, 256, 128, 8, 2, 4)),
        make("T333H320I192E6K3R2", shape(333, 320, 192, 6, 3, 2)),
        make("T100H128I64E8K2R8", shape(100, 128, 64, 8, 2, 8)), make("OneToken", shape(1, 128, 64, 4, 2, 1)),
        make("OneTokenPerRank", shape(1, 64, 64, 2, 1, 2)), make("OneExpert", shape(70, 64, 128, 1, 1, 1)),
        make("I768H320", shape(257, 320, 768, 2, 1, 2)), make("I1408H128", shape(100, 128, 1408, 4, 2, 1)),
        make("H2880I64", shape(33, 2880, 64, 2, 1, 1)), make("H7168", shape(40, 7168, 64, 4, 2, 1)),
        make("ExpertGap", shape(140, 128, 192, 4, 2, 2), [](Case& c) { c.expert_gap = 64; })),
    name_of);

INSTANTIATE_TEST_SUITE_P(SharedExpert, GpuForward,
                         ::testing::Values(make("Equal", shape(140, 128, 192, 4, 2, 2),
                                                [](Case& c) { c.problem.shared_intermediate = 192; }),
                                           make("Narrower", shape(140, 192, 256, 4, 2, 1),
                                                [](Case& c) { c.problem.shared_intermediate = 64; }),
                                           make("Wider", shape(129, 128, 64, 4, 2, 2),
                                                [](Case& c) { c.problem.shared_intermediate = 320; })),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Edges, GpuForward,
                         ::testing::Values(make("OneHotExpert", shape(100, 128, 64, 8, 2, 4),
                                                [](Case& c) {
                                                  c.problem.routing = Routing::one_expert;
                                                  c.problem.hot_expert = 5;
                                                  c.config.schedule_capacity_multiplier = 1.0;
                                                }),
                                           make("RankWithNoTokens", shape(0, 128, 64, 4, 2, 4),
                                                [](Case& c) {
                                                  c.problem.tokens_per_rank = {100, 0, 57, 1};
                                                  c.problem.shared_intermediate = 64;
                                                }),
                                           make("NoTokensAnywhere", shape(0, 64, 64, 4, 2, 2),
                                                [](Case& c) { c.problem.shared_intermediate = 64; }),
                                           make("SomeRoutesDropped", shape(200, 128, 64, 4, 3, 2),
                                                [](Case& c) { c.problem.dropped_fraction = 0.3; }),
                                           make("AllRoutesDropped", shape(70, 64, 64, 4, 2, 2),
                                                [](Case& c) {
                                                  c.problem.dropped_fraction = 1.0;
                                                  c.problem.shared_intermediate = 64;
                                                }),
                                           make("MoreExpertsThanRows", shape(3, 64, 64, 32, 2, 2)),
                                           make("Everything", mixed_problem({130, 0, 257, 61}, 2))),
                         name_of);

/// Every tunable gives the bits of the simplest run.
TEST(GpuForwardBits, DoNotDependOnTunables) {
  MOK_REQUIRE_GPU();
  const reference::Problem problem = reference::random_problem(mixed_problem({130, 0, 257, 61}, 2));
  GpuLayer layer(problem);
  std::vector<float> expected;
  constexpr std::int64_t kBatches[][2] = {{131072, 131072}, {128, 128}, {128, 256}, {256, 512}, {1024, 2048}};
  for (const auto& [minibatch, macrobatch] : kBatches) {
    for (const int comm_sms : {4, 8, 32}) {
      Config config;
      config.minibatch_size = minibatch;
      config.macrobatch_size = macrobatch;
      config.fwd_num_comm_sms = comm_sms;
      Workspace workspace(config, layer.workspace_options());
      const Schedule schedule = layer.schedule(workspace);
      static_cast<void>(layer.forward(workspace, schedule));
      if (expected.empty()) expected = layer.out();
      EXPECT_EQ("", first_difference(expected, layer.out()))
          << "minibatch " << minibatch << ", macrobatch " << macrobatch << ", " << comm_sms << " comm SMs";
    }
  }
}

TEST(GpuForwardBits, DoNotDependOnTheNumberOfRanks) {
  MOK_REQUIRE_GPU();
  const reference::Problem one = reference::random_problem(mixed_problem({448}, 3));
  std::vector<float> expected;
  for (const std::size_t ranks : {1, 2, 4, 8}) {
    const auto tokens = static_cast<std::int64_t>(448 / ranks);
    const reference::Problem problem = split(one, std::vector<std::int64_t>(ranks, tokens));
    GpuLayer layer(problem);
    Config config;
    config.schedule_capacity_multiplier = 1.0;
    Workspace workspace(config, layer.workspace_options());
    static_cast<void>(layer.forward(workspace, layer.schedule(workspace)));
    if (expected.empty()) expected = layer.out();
    EXPECT_EQ("", first_difference(expected, layer.out())) << ranks << " ranks";
  }
}

TEST(GpuForwardBits, AreTheSameAThousandTimes) {
  MOK_REQUIRE_GPU();
  const int runs = small_tests() ? 3 : 1000;
  const reference::Problem problem = reference::random_problem(mixed_problem({200, 77}, 4));
  GpuLayer layer(problem);
  Config config;
  config.minibatch_size = 128;
  config.macrobatch_size = 256;
  Workspace workspace(config, layer.workspace_options());
  const Schedule schedule = layer.schedule(workspace);
  std::vector<float> expected;
  for (int run = 0; run < runs; ++run) {
    static_cast<void>(layer.forward(workspace, schedule));
    if (expected.empty()) expected = layer.out();
    ASSERT_EQ("", first_difference(expected, layer.out())) << "run " << run;
  }
}

}  // namespace
}  // namespace mok::testing
