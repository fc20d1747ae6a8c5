// SPDX-License-Identifier: Apache-2.0
// NaN and infinities reach what depends on them and nothing else: everything else keeps its bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/moe_reference.h"
#include "reference/random_problem.h"

namespace mok::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::int64_t kHidden = 8, kIntermediate = 6, kShared = 4, kTopk = 2, kExperts = 4;

// Two ranks of three tokens. Token 1 of rank 0 goes to experts 2 and 0; expert 3 has no rows.
Problem small_problem() {
  ProblemOptions options;
  options.hidden = kHidden;
  options.intermediate = kIntermediate;
  options.shared_intermediate = kShared;
  options.experts = kExperts;
  options.topk = kTopk;
  options.tokens_per_rank = {3, 3};
  options.router_weights = RouterWeights::signed_normal;
  Problem problem = random_problem(options);
  problem.ranks[0].topk_experts = {0, 1, 2, 0, 1, -1};
  problem.ranks[1].topk_experts = {1, 0, -1, -1, 2, 1};
  return problem;
}

std::size_t at(std::int64_t row, std::int64_t cols, std::int64_t col = 0) {
  return static_cast<std::size_t>(row * cols + col);
}

// How many of `count` values from `begin` differ in their bits.
std::int64_t changed(const std::vector<double>& a, const std::vector<double>& b, std::size_t begin,
                     std::int64_t count) {
  std::int64_t changes = 0;
  for (std::size_t i = begin; i < begin + static_cast<std::size_t>(count); ++i) {
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) ++changes;
  }
  return changes;
}

std::int64_t changed(const std::vector<double>& a, const std::vector<double>& b) {
  return changed(a, b, 0, static_cast<std::int64_t>(a.size()));
}

std::int64_t nonfinite(const std::vector<double>& values, std::size_t begin, std::int64_t count) {
  return std::count_if(values.begin() + static_cast<std::ptrdiff_t>(begin),
                       values.begin() + static_cast<std::ptrdiff_t>(begin) + count,
                       [](double v) { return !std::isfinite(v); });
}

class Containment : public testing::TestWithParam<Rounding> {
 protected:
  Result run(const Problem& problem) const { return evaluate(problem, GetParam()); }

  // Rows of a per-token tensor: all of token `token` of rank 0 is not finite, no other token changed a bit.
  void expect_only_token(const Result& result, const Result& clean,
                         std::vector<double> BasicRankResult<double>::*field, std::int64_t token,
                         std::int64_t cols) const {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::int64_t t = 0; t < 3; ++t) {
        const bool hit = rank == 0 && t == token;
        const auto& values = result.ranks[rank].*field;
        if (hit) {
          EXPECT_EQ(nonfinite(values, at(t, cols), cols), cols);
        } else {
          EXPECT_EQ(changed(values, clean.ranks[rank].*field, at(t, cols), cols), 0);
        }
      }
    }
  }

  // A weight gradient of experts 0..3: those in `hit` hold only NaN or infinities, the others keep their
  // bits.
  void expect_only_experts(const std::vector<double>& values, const std::vector<double>& clean,
                           const std::vector<std::int64_t>& hit) const {
    constexpr std::int64_t kSize = kIntermediate * kHidden;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const bool is_hit = std::find(hit.begin(), hit.end(), e) != hit.end();
      if (is_hit) {
        EXPECT_EQ(nonfinite(values, at(e, kSize), kSize), kSize) << "expert " << e;
      } else {
        EXPECT_EQ(changed(values, clean, at(e, kSize), kSize), 0) << "expert " << e;
      }
    }
  }
};

using RankGradients = BasicRankResult<double>;

TEST_P(Containment, NaNInOneToken) {
  Problem problem = small_problem();
  const Result clean = run(problem);
  problem.ranks[0].x[at(1, kHidden, 3)] = kNaN;
  const Result result = run(problem);
  expect_only_token(result, clean, &RankGradients::out, 1, kHidden);
  expect_only_token(result, clean, &RankGradients::d_x, 1, kHidden);
  expect_only_token(result, clean, &RankGradients::d_router_weights, 1, kTopk);
  expect_only_experts(result.d_gate, clean.d_gate, {0, 2});
  expect_only_experts(result.d_up, clean.d_up, {0, 2});
  expect_only_experts(result.d_down, clean.d_down, {0, 2});
  EXPECT_EQ(nonfinite(result.ranks[0].d_shared_gate, 0, kShared * kHidden), kShared * kHidden);
  EXPECT_EQ(changed(result.ranks[1].d_shared_gate, clean.ranks[1].d_shared_gate), 0);
}

TEST_P(Containment, NaNInOneOutputGradient) {
  Problem problem = small_problem();
  const Result clean = run(problem);
  problem.ranks[0].grad_output[at(1, kHidden, 3)] = kNaN;
  const Result result = run(problem);
  EXPECT_EQ(changed(result.ranks[0].out, clean.ranks[0].out), 0);
  expect_only_token(result, clean, &RankGradients::d_x, 1, kHidden);
  expect_only_token(result, clean, &RankGradients::d_router_weights, 1, kTopk);
  expect_only_experts(result.d_gate, clean.d_gate, {0, 2});
  // dWd = dO^T Hw: only row 3 of the two experts depends on it.
  for (const std::int64_t e : {0, 2}) {
    for (std::int64_t h = 0; h < kHidden; ++h) {
      EXPECT_EQ(nonfinite(result.d_down, at(e * kHidden + h, kIntermediate), kIntermediate),
                h == 3 ? kIntermediate : 0);
    }
  }
}

TEST_P(Containment, InfiniteRouterWeight) {
  Problem problem = small_problem();
  const Result clean = run(problem);
  problem.ranks[0].router_weights[at(1, kTopk)] = kInfinity;  // expert 2
  const Result result = run(problem);
  expect_only_token(result, clean, &RankGradients::out, 1, kHidden);
  expect_only_token(result, clean, &RankGradients::d_x, 1, kHidden);
  EXPECT_EQ(changed(result.ranks[0].d_router_weights, clean.ranks[0].d_router_weights), 0);
  expect_only_experts(result.d_gate, clean.d_gate, {2});
  expect_only_experts(result.d_down, clean.d_down, {2});
  EXPECT_EQ(changed(result.ranks[0].d_shared_up, clean.ranks[0].d_shared_up), 0);
}

TEST_P(Containment, NothingReadsTheWeightOfADroppedRoute) {
  Problem problem = small_problem();
  const Result clean = run(problem);
  problem.ranks[0].router_weights[at(2, kTopk, 1)] = kNaN;
  problem.ranks[1].router_weights[at(1, kTopk)] = kInfinity;
  const Result result = run(problem);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(changed(result.ranks[rank].out, clean.ranks[rank].out), 0);
    EXPECT_EQ(changed(result.ranks[rank].d_x, clean.ranks[rank].d_x), 0);
    EXPECT_EQ(changed(result.ranks[rank].d_router_weights, clean.ranks[rank].d_router_weights), 0);
  }
  expect_only_experts(result.d_gate, clean.d_gate, {});
  EXPECT_EQ(result.ranks[1].d_router_weights[at(1, kTopk)], 0.0);
}

TEST_P(Containment, NothingReadsAnExpertWithoutRows) {
  Problem problem = small_problem();
  const Result clean = run(problem);
  constexpr std::int64_t kSize = kIntermediate * kHidden;
  std::fill_n(problem.gate.begin() + 3 * kSize, kSize, kNaN);
  std::fill_n(problem.down.begin() + 3 * kSize, kSize, kInfinity);
  const Result result = run(problem);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(changed(result.ranks[rank].out, clean.ranks[rank].out), 0);
    EXPECT_EQ(changed(result.ranks[rank].d_x, clean.ranks[rank].d_x), 0);
  }
  for (const auto* gradient : {&result.d_gate, &result.d_up, &result.d_down}) {
    for (std::size_t i = 3 * kSize; i < 4 * kSize; ++i) EXPECT_EQ((*gradient)[i], 0.0);
  }
}

// One token, one expert, G = x gate, U = x up, y = Hd: every value can be followed by hand.
Problem scalar_problem(double gate, double up, std::optional<double> limit) {
  Problem problem;
  problem.hidden = problem.intermediate = problem.experts = problem.topk = 1;
  problem.swiglu_limit = limit;
  problem.gate = {gate};
  problem.up = {up};
  problem.down = {1.0};
  problem.ranks = {{1, {1.0}, {0}, {1.0}, {1.0}}};
  return problem;
}

TEST_P(Containment, LimitCutsInfinitiesOffAndSelectsTheirGradients) {
  const Result gate = run(scalar_problem(kInfinity, 0.5, 2.0));
  EXPECT_TRUE(std::isfinite(gate.ranks[0].out[0]));
  EXPECT_EQ(gate.d_gate[0], 0.0);
  EXPECT_TRUE(std::isfinite(gate.d_up[0]));
  const Result up = run(scalar_problem(0.5, -kInfinity, 2.0));
  EXPECT_TRUE(std::isfinite(up.ranks[0].out[0]));
  EXPECT_LT(up.ranks[0].out[0], 0.0);
  EXPECT_EQ(up.d_up[0], 0.0);
  EXPECT_TRUE(std::isfinite(up.d_gate[0]));
}

TEST_P(Containment, NaNPassesThroughTheLimit) {
  for (const Problem& problem : {scalar_problem(kNaN, 0.5, 2.0), scalar_problem(0.5, kNaN, 2.0)}) {
    const Result result = run(problem);
    EXPECT_TRUE(std::isnan(result.ranks[0].out[0]));
    EXPECT_TRUE(std::isnan(result.ranks[0].d_router_weights[0]));
    EXPECT_TRUE(std::isnan(result.d_down[0]));
  }
}

TEST_P(Containment, MaskSelectsWhereTheOutputGradientIsNaN) {
  Problem problem = scalar_problem(3.0, 4.0, 2.0);
  problem.ranks[0].grad_output[0] = kNaN;
  const Result result = run(problem);
  EXPECT_EQ(result.d_gate[0], 0.0);
  EXPECT_EQ(result.d_up[0], 0.0);
  EXPECT_EQ(result.ranks[0].d_x[0], 0.0);
  EXPECT_TRUE(std::isnan(result.d_down[0]));
}

const auto rounding_name = [](const testing::TestParamInfo<Rounding>& info) {
  return std::string(info.param == Rounding::none ? "none" : "section2");
};

INSTANTIATE_TEST_SUITE_P(Roundings, Containment, testing::Values(Rounding::none, Rounding::section2),
                         rounding_name);

}  // namespace
}  // namespace mok::reference
