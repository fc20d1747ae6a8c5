// SPDX-License-Identifier: Apache-2.0
// The reference against values computed by hand, its rounding points, and its independence of the thread
// count.
#include "reference/moe_reference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "reference/random_problem.h"
#include "reference/rounding.h"

namespace mok::reference {
namespace {

double bf16(double value) { return round_to_bfloat16(value); }

bool all_bf16(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v == round_to_bfloat16(v); });
}

bool all_float(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v == round_to_float(v); });
}

// One token, H = I = Is = 1, two experts and a shared one: all sums have one or two terms.
Problem scalar_problem() {
  Problem problem;
  problem.hidden = problem.intermediate = problem.shared_intermediate = 1;
  problem.experts = problem.topk = 2;
  problem.gate = {0.75, -1.5};
  problem.up = {1.25, 0.5};
  problem.down = {-0.875, 2.0};
  problem.shared_gate = {0.5};
  problem.shared_up = {-1.0};
  problem.shared_down = {0.25};
  problem.ranks = {{1, {1.2890625}, {1, 0}, {-0.625, 0.375}, {1.5}}};
  return problem;
}

struct Scalars {
  double out, d_x, d_w, d_gate, d_up, d_down;
};

// One expert on one value of x: y (unweighted) in `out`, then the gradients for dO and w.
template <class Round>
Scalars by_hand(double x, double gate, double up, double down, double w, double d_out, Round round) {
  const double g = round(x * gate), u = round(x * up);
  const double s = 1.0 / (1.0 + std::exp(-g));
  const double hidden = round(g * s * u);
  const double d_raw = d_out * down;
  const double d_g = round(w * d_raw * u * (s + g * s * (1.0 - s)));
  const double d_u = round(w * d_raw * (g * s));
  return {round(hidden * down), round(d_g * gate + d_u * up),    d_raw * hidden, round(d_g * x),
          round(d_u * x),       round(d_out * round(w * hidden))};
}

template <class Round>
void expect_by_hand(const Result& result, const Problem& problem, Round round, double tolerance) {
  const double x = problem.ranks[0].x[0], d_out = problem.ranks[0].grad_output[0];
  const double w0 = problem.ranks[0].router_weights[0], w1 = problem.ranks[0].router_weights[1];
  const Scalars first = by_hand(x, problem.gate[1], problem.up[1], problem.down[1], w0, d_out, round);
  const Scalars second = by_hand(x, problem.gate[0], problem.up[0], problem.down[0], w1, d_out, round);
  const Scalars shared =
      by_hand(x, problem.shared_gate[0], problem.shared_up[0], problem.shared_down[0], 1.0, d_out, round);
  const auto& rank = result.ranks[0];
  EXPECT_NEAR(rank.out[0], round(shared.out + w0 * first.out + w1 * second.out), tolerance);
  EXPECT_NEAR(rank.d_x[0], round(shared.d_x + first.d_x + second.d_x), tolerance);
  EXPECT_NEAR(rank.d_router_weights[0], first.d_w, 1e-6);
  EXPECT_NEAR(rank.d_router_weights[1], second.d_w, 1e-6);
  EXPECT_NEAR(result.d_gate[1], first.d_gate, tolerance);
  EXPECT_NEAR(result.d_up[1], first.d_up, tolerance);
  EXPECT_NEAR(result.d_down[0], second.d_down, tolerance);
  EXPECT_NEAR(rank.d_shared_gate[0], shared.d_gate, tolerance);
  EXPECT_NEAR(rank.d_shared_down[0], shared.d_down, tolerance);
}

TEST(MoeReference, MatchesAComputationByHand) {
  const Problem problem = scalar_problem();
  expect_by_hand(
      evaluate(problem, Rounding::none), problem, [](double v) { return v; }, 1e-14);
  // No value here lies near a tie, so the rounded result is the same to the bit.
  expect_by_hand(evaluate(problem, Rounding::section2), problem, bf16, 0.0);
}

TEST(MoeReference, RoundsWhatTheLayerStores) {
  ProblemOptions options;
  options.shared_intermediate = 32;
  options.tokens_per_rank = {20, 7};
  const Problem problem = random_problem(options);
  const Result result = evaluate(problem, Rounding::section2);
  for (const auto& rank : result.ranks) {
    EXPECT_TRUE(all_bf16(rank.out));
    EXPECT_TRUE(all_bf16(rank.d_x));
    EXPECT_TRUE(all_float(rank.d_router_weights));
    EXPECT_FALSE(all_bf16(rank.d_router_weights));
    EXPECT_TRUE(all_bf16(rank.d_shared_down));
  }
  EXPECT_TRUE(all_bf16(result.d_gate));
  EXPECT_TRUE(all_bf16(result.d_up));
  EXPECT_TRUE(all_bf16(result.d_down));
}

TEST(MoeReference, MainGradKeepsFloatWeightGradients) {
  const Problem problem = random_problem({});
  Options options;
  options.rounding = Rounding::section2;
  const Result rounded = evaluate(problem, options);
  options.weight_gradients = WeightGradients::main_grad;
  const Result kept = evaluate(problem, options);
  EXPECT_TRUE(all_float(kept.d_gate));
  EXPECT_FALSE(all_bf16(kept.d_gate));
  for (std::size_t i = 0; i < kept.d_gate.size(); ++i) {
    EXPECT_NEAR(kept.d_gate[i], rounded.d_gate[i], std::abs(kept.d_gate[i]) * 0x1p-8);
  }
  EXPECT_EQ(kept.ranks[0].d_x, rounded.ranks[0].d_x);
}

TEST(MoeReference, DoesNotDependOnTheNumberOfThreads) {
  ProblemOptions problem_options;
  problem_options.hidden = 192;
  problem_options.intermediate = 70;
  problem_options.shared_intermediate = 64;
  problem_options.tokens_per_rank = {61, 40};
  const Problem problem = random_problem(problem_options);
  Options options;
  options.threads = 1;
  const Result one = evaluate(problem, options);
  options.threads = 5;
  const Result five = evaluate(problem, options);
  EXPECT_EQ(one.ranks[1].out, five.ranks[1].out);
  EXPECT_EQ(one.ranks[0].d_x, five.ranks[0].d_x);
  EXPECT_EQ(one.ranks[0].d_shared_up, five.ranks[0].d_shared_up);
  EXPECT_EQ(one.d_gate, five.d_gate);
  EXPECT_EQ(one.d_down, five.d_down);
}

TEST(MoeReference, SplittingTokensOverRanksChangesNothing) {
  ProblemOptions options;
  options.tokens_per_rank = {4, 0, 6};
  const Result split = evaluate(random_problem(options), Rounding::section2);
  options.tokens_per_rank = {10};
  const Result whole = evaluate(random_problem(options), Rounding::section2);
  std::vector<double> out = split.ranks[0].out;
  out.insert(out.end(), split.ranks[2].out.begin(), split.ranks[2].out.end());
  EXPECT_EQ(out, whole.ranks[0].out);
  EXPECT_EQ(split.d_up, whole.d_up);
}

TEST(MoeReference, ForwardIsTheForwardPartOfEvaluate) {
  const Problem problem = random_problem({});
  const Result result = forward(problem, {});
  EXPECT_EQ(result.ranks[0].out, evaluate(problem, Rounding::none).ranks[0].out);
  EXPECT_TRUE(result.ranks[0].d_x.empty());
  EXPECT_TRUE(result.d_gate.empty());
}

TEST(MoeReference, RejectsWhatDoesNotFit) {
  Problem problem = random_problem({});
  problem.ranks[0].topk_experts[3] = 4;
  EXPECT_THROW(evaluate(problem, Rounding::none), std::invalid_argument);
  problem.ranks[0].topk_experts[3] = -2;
  EXPECT_THROW(evaluate(problem, Rounding::none), std::invalid_argument);
  problem.ranks[0].topk_experts[3] = -1;
  EXPECT_NO_THROW(evaluate(problem, Rounding::none));
  problem.ranks[0].grad_output.clear();
  EXPECT_NO_THROW(forward(problem, {}));
  EXPECT_THROW(evaluate(problem, Rounding::none), std::invalid_argument);
}

}  // namespace
}  // namespace mok::reference
