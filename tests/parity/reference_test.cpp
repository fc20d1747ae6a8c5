// SPDX-License-Identifier: Apache-2.0
// The CPU backend against the float64 reference, every output and gradient within the derived bound.
#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "reference/bound.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

using reference::ProblemOptions;
using reference::RouterWeights;
using reference::Routing;

struct Case {
  const char* name;
  ProblemOptions problem;
  RunOptions run;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Case make(const char* name, ProblemOptions problem,
          const std::function<void(ProblemOptions&, RunOptions&)>& change = {}) {
  Case result{name, std::move(problem), {}};
  if (change) change(result.problem, result.run);
  return result;
}

/// A quarter of the tokens, half the width, both rounded up: still no multiple of a tile where the shape is
/// none.
ProblemOptions smaller(ProblemOptions problem) {
  constexpr std::int64_t kUnit = 64;
  const auto half = [](std::int64_t width) { return (width / 2 + kUnit - 1) / kUnit * kUnit; };
  for (std::int64_t& tokens : problem.tokens_per_rank) tokens = (tokens + 3) / 4;
  problem.hidden = half(problem.hidden);
  problem.intermediate = half(problem.intermediate);
  problem.shared_intermediate = half(problem.shared_intermediate);
  return problem;
}

class Reference : public ::testing::TestWithParam<Case> {};

TEST_P(Reference, IsMetWithinTheDerivedBound) {
  RunOptions run = GetParam().run;
  if (small_tests())
    run.config.schedule_capacity_multiplier = 1.0;  // a skewed router may fill a smaller table
  const reference::Problem problem =
      reference::random_problem(small_tests() ? smaller(GetParam().problem) : GetParam().problem);
  reference::Options options;
  options.weight_gradients =
      run.main_grad ? reference::WeightGradients::main_grad : reference::WeightGradients::bfloat16;
  const reference::Result exact = reference::evaluate(problem, options);
  options.rounding = reference::Rounding::section2;
  const reference::Result rounded = reference::evaluate(problem, options);
  const LayerRun result = run_layer(problem, run);
  const auto reports = reference::compare_all(problem, exact, rounded, result.candidate);
  EXPECT_TRUE(reference::all_pass(reports)) << reference::describe(reports);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

// (T, H, I, E, K, R) throughout.
INSTANTIATE_TEST_SUITE_P(Shapes, Reference,
                         ::testing::Values(make("T512H256I128E8K2R4", shape(512, 256, 128, 8, 2, 4)),
                                           make("T333H320I192E6K3R2", shape(333, 320, 192, 6, 3, 2)),
                                           make("T64H64I64E4K4R1", shape(64, 64, 64, 4, 4, 1)),
                                           make("OneTokenPerRank", shape(1, 64, 64, 2, 1, 2)),
                                           make("OneToken", shape(1, 128, 64, 4, 2, 1)),
                                           make("OneExpert", shape(70, 64, 128, 1, 1, 1)),
                                           make("OneRoutePerToken", shape(150, 128, 64, 8, 1, 4)),
                                           make("OneExpertPerRank", shape(90, 64, 128, 4, 2, 4))),
                         name_of);

// R6: widths and token counts of real models that are no multiple of a tile; two ranks; no shared expert, or
// one of another width.
INSTANTIATE_TEST_SUITE_P(R6OddShapes, Reference,
                         ::testing::Values(make("I768H320", shape(257, 320, 768, 2, 1, 2)),
                                           make("I1408H128", shape(100, 128, 1408, 4, 2, 1)),
                                           make("H576I576", shape(130, 576, 576, 4, 2, 2)),
                                           make("H2880I64", shape(33, 2880, 64, 2, 1, 1)),
                                           make("SharedExpert", shape(140, 128, 192, 4, 2, 2),
                                                [](auto& p, auto&) { p.shared_intermediate = 192; }),
                                           make("SharedExpertNarrower", shape(140, 192, 256, 4, 2, 2),
                                                [](auto& p, auto&) { p.shared_intermediate = 64; }),
                                           make("SharedExpertWider", shape(129, 128, 64, 4, 2, 2),
                                                [](auto& p, auto&) { p.shared_intermediate = 320; })),
                         name_of);

// R1: every output and gradient is defined where somebody has nothing to do.
INSTANTIATE_TEST_SUITE_P(R1NothingToDo, Reference,
                         ::testing::Values(make("AllTokensToOneExpertOthersAndThreeRanksHaveNoRows",
                                                shape(100, 128, 64, 8, 2, 4),
                                                [](auto& p, auto& run) {
                                                  p.routing = Routing::one_expert;
                                                  p.hot_expert = 5;
                                                  run.config.schedule_capacity_multiplier = 1.0;
                                                }),
                                           make("RankWithNoTokens", shape(0, 128, 64, 4, 2, 4),
                                                [](auto& p, auto&) {
                                                  p.tokens_per_rank = {100, 0, 57, 1};
                                                  p.shared_intermediate = 64;
                                                }),
                                           make("OnlyOneRankHasTokens", shape(0, 64, 64, 8, 2, 4),
                                                [](auto& p, auto&) {
                                                  p.tokens_per_rank = {0, 0, 260, 0};
                                                }),
                                           make("NoTokensAnywhere", shape(0, 64, 64, 4, 2, 2),
                                                [](auto& p, auto&) { p.shared_intermediate = 64; }),
                                           make("SomeRoutesDropped", shape(200, 128, 64, 4, 3, 2),
                                                [](auto& p, auto&) { p.dropped_fraction = 0.3; }),
                                           make("AllRoutesDropped", shape(70, 64, 64, 4, 2, 2),
                                                [](auto& p, auto&) {
                                                  p.dropped_fraction = 1.0;
                                                  p.shared_intermediate = 64;
                                                }),
                                           make("MoreExpertsThanRows", shape(3, 64, 64, 32, 2, 2))),
                         name_of);

// R11, R14: the data that shows a wrong SwiGLU or a router weight applied in the wrong place.
INSTANTIATE_TEST_SUITE_P(
    R11R14Values, Reference,
    ::testing::Values(make("SwigluLimitBites", shape(150, 128, 192, 4, 2, 2),
                           [](auto& p, auto&) {
                             p.swiglu_limit = reference::kBitingLimit;
                             p.shared_intermediate = 64;
                           }),
                      make("TailOfTheGate", shape(150, 128, 192, 4, 2, 2),
                           [](auto& p, auto&) {
                             p.gate_range = reference::kGateTail;
                             p.shared_intermediate = 128;
                           }),
                      make("NegativeAndZeroRouterWeights", shape(200, 128, 64, 8, 3, 2),
                           [](auto& p, auto&) {
                             p.router_weights = RouterWeights::signed_normal;
                             p.zero_weight_fraction = 0.2;
                           }),
                      make("MainGrad", shape(180, 128, 192, 4, 2, 2),
                           [](auto& p, auto& run) {
                             run.main_grad = true;
                             p.shared_intermediate = 128;
                           }),
                      make("SkewedRouting", shape(220, 128, 64, 8, 2, 4),
                           [](auto& p, auto&) { p.routing = Routing::skewed; }),
                      make("DifferentTokensPerRank", mixed_problem({61, 0, 257, 128}, 1)),
                      make("EverythingAtOnceMainGrad", mixed_problem({200, 31, 7, 160}, 1),
                           [](auto&, auto& run) { run.main_grad = true; })),
    name_of);

// More rows than one macrobatch holds: an expert's rows are cut, its weight gradient carried.
void small_macrobatch(RunOptions& run, std::int64_t minibatch, std::int64_t macrobatch) {
  run.config.minibatch_size = minibatch;
  run.config.macrobatch_size = macrobatch;
}

INSTANTIATE_TEST_SUITE_P(Macrobatches, Reference,
                         ::testing::Values(make("Of128", shape(300, 128, 64, 4, 2, 2),
                                                [](auto&, auto& run) { small_macrobatch(run, 128, 128); }),
                                           make("Of256", shape(400, 64, 128, 4, 2, 2),
                                                [](auto&, auto& run) { small_macrobatch(run, 128, 256); }),
                                           make("Of128OneExpert", shape(300, 64, 64, 4, 2, 2),
                                                [](auto& p, auto& run) {
                                                  p.routing = Routing::one_expert;
                                                  small_macrobatch(run, 128, 128);
                                                }),
                                           make("Of256MainGradSharedExpertLimit",
                                                mixed_problem({300, 120, 333, 1}, 1),
                                                [](auto&, auto& run) {
                                                  small_macrobatch(run, 128, 256);
                                                  run.main_grad = true;
                                                }),
                                           make("Of128Recomputed", mixed_problem({250, 250}, 1),
                                                [](auto&, auto& run) {
                                                  small_macrobatch(run, 128, 128);
                                                  run.recompute = true;
                                                })),
                         name_of);

}  // namespace
}  // namespace mok::testing
