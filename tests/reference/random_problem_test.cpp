// SPDX-License-Identifier: Apache-2.0
// The generated problems are what their options say.
#include "reference/random_problem.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "reference/rounding.h"

namespace mok::reference {
namespace {

struct Moments {
  double mean, deviation;
};

Moments moments(const std::vector<double>& values) {
  double sum = 0.0, squares = 0.0;
  for (const double v : values) {
    sum += v;
    squares += v * v;
  }
  const double count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count - (sum / count) * (sum / count))};
}

std::vector<std::int64_t> rows_per_expert(const Problem& problem) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(problem.experts));
  for (const RankInput& input : problem.ranks) {
    for (const std::int32_t e : input.topk_experts) {
      if (e >= 0) ++rows[static_cast<std::size_t>(e)];
    }
  }
  return rows;
}

TEST(RandomProblem, IsStandardNormalAndRepresentable) {
  ProblemOptions options;
  options.hidden = 100;
  options.intermediate = 64;
  options.shared_intermediate = 25;
  options.tokens_per_rank = {300};
  const Problem problem = random_problem(options);
  const RankInput& input = problem.ranks[0];
  EXPECT_NEAR(moments(input.x).mean, 0.0, 0.02);
  EXPECT_NEAR(moments(input.x).deviation, 1.0, 0.02);
  EXPECT_NEAR(moments(input.grad_output).deviation, 1.0, 0.02);
  EXPECT_NEAR(moments(problem.gate).deviation, 0.1, 0.002);
  EXPECT_NEAR(moments(problem.down).deviation, 0.125, 0.002);
  EXPECT_NEAR(moments(problem.shared_down).deviation, 0.2, 0.02);
  for (const auto* values : {&input.x, &input.grad_output, &problem.up, &problem.shared_up}) {
    EXPECT_TRUE(
        std::all_of(values->begin(), values->end(), [](double v) { return v == round_to_bfloat16(v); }));
  }
}

TEST(RandomProblem, HasTheSameBitsEverywhere) {
  ProblemOptions options;
  options.hidden = 2;
  options.intermediate = 1;
  options.experts = 2;
  options.tokens_per_rank = {1};
  const Problem problem = random_problem(options);
  const RankInput& input = problem.ranks[0];
  EXPECT_EQ(problem.gate, (std::vector<double>{-0x1.48p-4, 0x1.76p-1, -0x1.8ap-1, -0x1.f4p-2}));
  EXPECT_EQ(input.x, (std::vector<double>{-0x1.32p+0, -0x1.08p-1}));
  EXPECT_EQ(input.router_weights, (std::vector<double>{0x1.a5c114p-2, 0x1.2d1f76p-1}));
}

TEST(RandomProblem, SeedsDiffer) {
  ProblemOptions options;
  const Problem first = random_problem(options);
  options.seed = 2;
  EXPECT_NE(first.gate, random_problem(options).gate);
}

TEST(RandomProblem, RoutesToDistinctExperts) {
  for (const Routing routing : {Routing::uniform, Routing::skewed}) {
    ProblemOptions options;
    options.experts = 6;
    options.topk = 4;
    options.routing = routing;
    const Problem problem = random_problem(options);
    const std::vector<std::int32_t>& experts = problem.ranks[0].topk_experts;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::set<std::int32_t> distinct(&experts[t * 4], &experts[t * 4] + 4);
      EXPECT_EQ(distinct.size(), 4u);
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), 6);
    }
  }
}

TEST(RandomProblem, SkewsAndConcentratesRoutes) {
  ProblemOptions options;
  options.hidden = options.intermediate = 1;
  options.experts = 8;
  options.tokens_per_rank = {2000};
  const std::vector<std::int64_t> uniform = rows_per_expert(random_problem(options));
  for (const std::int64_t rows : uniform) EXPECT_NEAR(static_cast<double>(rows), 500.0, 80.0);
  options.routing = Routing::skewed;
  const std::vector<std::int64_t> skewed = rows_per_expert(random_problem(options));
  EXPECT_GT(skewed[0], 1000);
  EXPECT_GT(skewed[1], skewed[3]);
  EXPECT_LT(skewed[7], 300);
  options.routing = Routing::one_expert;
  options.hot_expert = 5;
  EXPECT_EQ(rows_per_expert(random_problem(options))[5], 4000);
}

TEST(RandomProblem, DropsRoutesAndZeroesWeights) {
  ProblemOptions options;
  options.hidden = options.intermediate = 1;
  options.tokens_per_rank = {1000, 0, 1000};
  options.dropped_fraction = 0.25;
  options.zero_weight_fraction = 0.1;
  options.router_weights = RouterWeights::signed_normal;
  const Problem problem = random_problem(options);
  ASSERT_EQ(problem.ranks.size(), 3u);
  EXPECT_EQ(problem.ranks[1].tokens, 0);
  const auto& experts = problem.ranks[0].topk_experts;
  EXPECT_NEAR(static_cast<double>(std::count(experts.begin(), experts.end(), -1)), 500.0, 80.0);
  const auto& weights = problem.ranks[2].router_weights;
  EXPECT_NEAR(static_cast<double>(std::count(weights.begin(), weights.end(), 0.0)), 200.0, 50.0);
  const auto negative = std::count_if(weights.begin(), weights.end(), [](double w) { return w < 0; });
  EXPECT_NEAR(static_cast<double>(negative), 900.0, 100.0);
}

TEST(RandomProblem, NormalisesRouterWeights) {
  ProblemOptions options;
  options.topk = 4;
  const Problem problem = random_problem(options);
  const auto& weights = problem.ranks[0].router_weights;
  for (std::size_t t = 0; t < 64; ++t) {
    EXPECT_NEAR(weights[t * 4] + weights[t * 4 + 1] + weights[t * 4 + 2] + weights[t * 4 + 3], 1.0, 1e-6);
    EXPECT_GT(*std::min_element(&weights[t * 4], &weights[t * 4] + 4), 0.0);
  }
}

TEST(RandomProblem, PutsGatesIntoTheTail) {
  ProblemOptions options;
  options.gate_range = kGateTail;
  const Problem problem = random_problem(options);
  double low = 0.0, high = -100.0;
  for (std::size_t t = 0; t < 64; ++t) {
    for (std::size_t row = 0; row < 256; ++row) {
      double gate = 0.0;
      for (std::size_t h = 0; h < 64; ++h)
        gate += problem.ranks[0].x[t * 64 + h] * problem.gate[row * 64 + h];
      low = std::min(low, gate);
      high = std::max(high, gate);
    }
  }
  EXPECT_GE(low, -20.0);
  EXPECT_LE(high, -5.0);
  EXPECT_LT(low, -18.0);
  EXPECT_GT(high, -7.0);
}

TEST(RandomProblem, RejectsImpossibleOptions) {
  ProblemOptions options;
  options.topk = 5;
  EXPECT_THROW(random_problem(options), std::invalid_argument);
  options.routing = Routing::one_expert;
  EXPECT_NO_THROW(random_problem(options));
  options.hot_expert = 4;
  EXPECT_THROW(random_problem(options), std::invalid_argument);
}

}  // namespace
}  // namespace mok::reference
