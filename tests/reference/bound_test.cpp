// SPDX-License-Identifier: Apache-2.0
// The comparison itself: distances, the factor two, exact tensors, NaN and infinities.
#include "reference/bound.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "reference/random_problem.h"

namespace mok::reference {
namespace {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr float kInfinityF = std::numeric_limits<float>::infinity();
constexpr float kNaNF = std::numeric_limits<float>::quiet_NaN();

Verdict compare_floats(const Doubles& exact, const Doubles& rounded, const Floats& candidate,
                       std::int64_t rows, std::int64_t cols) {
  return compare(exact, rounded, candidate, rows, cols);
}

TEST(Bound, MeasuresNormAndWorstRow) {
  const Verdict v = compare_floats({3, 4, 0, 5}, {3, 4, 0, 6}, {3, 4, 1, 6}, 2, 2);
  EXPECT_DOUBLE_EQ(v.exact_norm, std::sqrt(50.0));
  EXPECT_DOUBLE_EQ(v.largest_row_norm, 5.0);
  EXPECT_DOUBLE_EQ(v.norm_distance, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(v.norm_bound, 2.0);
  EXPECT_DOUBLE_EQ(v.worst_row_distance, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(v.worst_row_bound, 2.0);
  EXPECT_EQ(v.worst_row, 1);
  EXPECT_DOUBLE_EQ(v.relative_norm_distance(), 0.2);
  EXPECT_DOUBLE_EQ(v.relative_worst_row_distance(), std::sqrt(2.0) / 5.0);
  EXPECT_TRUE(v.pass);
}

TEST(Bound, AllowsTwiceTheRoundedDistanceAndNoMore) {
  EXPECT_TRUE(compare_floats({0, 8}, {1, 8}, {2, 8}, 1, 2).pass);
  EXPECT_FALSE(compare_floats({0, 8}, {1, 8}, {2.001f, 8}, 1, 2).pass);
}

TEST(Bound, FailsOnOneBadRowAmongMany) {
  // Every row of the rounded result is off by 0.1; of the candidate only one, by 0.9: less in norm, more in a
  // row.
  const Doubles exact(100, 1.0), rounded(100, 1.1);
  Floats candidate(100, 1.0f);
  candidate[42] = 1.9f;
  const Verdict v = compare(exact, rounded, candidate, 100, 1);
  EXPECT_LT(v.norm_distance, v.norm_bound);
  EXPECT_EQ(v.worst_row, 42);
  EXPECT_FALSE(v.pass);
}

TEST(Bound, FailsOnManyRowsThatAreEachAllowed) {
  Doubles exact(100, 1.0), rounded(100, 1.0);
  rounded[0] = 1.1;
  const Floats candidate(100, 1.15f);
  const Verdict v = compare(exact, rounded, candidate, 100, 1);
  EXPECT_LT(v.worst_row_distance, v.worst_row_bound);
  EXPECT_FALSE(v.pass);
}

TEST(Bound, GivesAnExactTensorAThousandth) {
  const Doubles exact = {3, 4, 0, 1};
  EXPECT_TRUE(compare_floats(exact, exact, {3, 4.004f, 0, 1}, 2, 2).pass);
  EXPECT_FALSE(compare_floats(exact, exact, {3, 4.006f, 0, 1}, 2, 2).pass);
  const Doubles zeros(4, 0.0);
  EXPECT_TRUE(compare_floats(zeros, zeros, {0, -0.0f, 0, 0}, 2, 2).pass);
  const Verdict v = compare_floats(zeros, zeros, {0, 0, 1e-30f, 0}, 2, 2);
  EXPECT_FALSE(v.pass);
  EXPECT_EQ(v.relative_norm_distance(), kInfinity);
}

TEST(Bound, AcceptsNonfiniteElementsOfTheSameKindOnly) {
  const Doubles exact = {1, kNaN, kInfinity, -kInfinity}, rounded = {1.1, kNaN, kInfinity, -kInfinity};
  EXPECT_TRUE(compare_floats(exact, rounded, {1, kNaNF, kInfinityF, -kInfinityF}, 1, 4).pass);
  EXPECT_TRUE(compare_floats(exact, rounded, {1, -kNaNF, kInfinityF, -kInfinityF}, 1, 4).pass);
  EXPECT_FALSE(compare_floats(exact, rounded, {1, 0, kInfinityF, -kInfinityF}, 1, 4).pass);
  EXPECT_FALSE(compare_floats(exact, rounded, {1, kNaNF, kNaNF, -kInfinityF}, 1, 4).pass);
  EXPECT_FALSE(compare_floats(exact, rounded, {1, kInfinityF, kInfinityF, -kInfinityF}, 1, 4).pass);
  EXPECT_FALSE(compare_floats(exact, rounded, {1, kNaNF, -kInfinityF, -kInfinityF}, 1, 4).pass);
  const Verdict v = compare_floats(exact, rounded, {kNaNF, kNaNF, kInfinityF, kInfinityF}, 1, 4);
  EXPECT_EQ(v.nonfinite_mismatches, 2);
  EXPECT_EQ(v.first_nonfinite_mismatch, 0);
  EXPECT_FALSE(v.pass);
}

TEST(Bound, AcceptsAnOverflowThatRoundingCauses) {
  EXPECT_TRUE(compare_floats({1e39, 1}, {kInfinity, 1.1}, {kInfinityF, 1}, 1, 2).pass);
  EXPECT_FALSE(compare_floats({1e39, 1}, {kInfinity, 1.1}, {1e38f, 1}, 1, 2).pass);
}

TEST(Bound, FailsWhereOnlyTheExactResultIsNotFinite) {
  EXPECT_FALSE(compare_floats({kNaN, 1}, {1, 1.1}, {1, 1}, 1, 2).pass);
}

TEST(Bound, LeavesNonfiniteElementsOutOfTheDistances) {
  const Verdict v = compare_floats({kNaN, 2}, {kNaN, 2.5}, {kNaNF, 2.25f}, 1, 2);
  EXPECT_DOUBLE_EQ(v.exact_norm, 2.0);
  EXPECT_DOUBLE_EQ(v.norm_distance, 0.25);
  EXPECT_DOUBLE_EQ(v.norm_bound, 1.0);
  EXPECT_DOUBLE_EQ(v.equal_share, 0.5);
}

TEST(Bound, PassesEmptyTensorsAndRejectsWrongShapes) {
  EXPECT_TRUE(compare_floats({}, {}, {}, 0, 7).pass);
  EXPECT_TRUE(compare_floats({}, {}, {}, 7, 0).pass);
  EXPECT_THROW(compare_floats({1}, {1}, {1}, 1, 2), std::invalid_argument);
  EXPECT_THROW(compare_floats({1, 2}, {1, 2}, {1}, 1, 2), std::invalid_argument);
}

TEST(Bound, TakesDoublesAsWell) {
  const Doubles exact = {1, 2}, rounded = {1, 2.1};
  EXPECT_TRUE(compare(exact, rounded, rounded, 1, 2).pass);
}

Candidate as_candidate(const Result& result) {
  const auto cast = [](const Doubles& values) { return Floats(values.begin(), values.end()); };
  Candidate candidate;
  for (const auto& rank : result.ranks) {
    candidate.ranks.push_back({cast(rank.out), cast(rank.d_x), cast(rank.d_router_weights),
                               cast(rank.d_shared_gate), cast(rank.d_shared_up), cast(rank.d_shared_down)});
  }
  candidate.d_gate = cast(result.d_gate);
  candidate.d_up = cast(result.d_up);
  candidate.d_down = cast(result.d_down);
  return candidate;
}

TEST(CompareAll, ReportsEveryTensorOverAllRanks) {
  ProblemOptions options;
  options.hidden = 8;
  options.intermediate = 6;
  options.shared_intermediate = 4;
  options.tokens_per_rank = {5, 0, 2};
  const Problem problem = random_problem(options);
  const Result exact = evaluate(problem, Rounding::none), rounded = evaluate(problem, Rounding::section2);
  Candidate candidate = as_candidate(rounded);
  const std::vector<TensorReport> reports = compare_all(problem, exact, rounded, candidate);
  const std::vector<std::string> names = {"out",           "d_x",         "d_router_weights",
                                          "d_gate",        "d_up",        "d_down",
                                          "d_shared_gate", "d_shared_up", "d_shared_down"};
  ASSERT_EQ(reports.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(reports[i].name, names[i]);
    EXPECT_GT(reports[i].verdict.norm_distance, 0.0);
  }
  EXPECT_TRUE(all_pass(reports)) << describe(reports);

  candidate.ranks[2].d_router_weights[2] += 1.0f;
  const std::vector<TensorReport> broken = compare_all(problem, exact, rounded, candidate);
  EXPECT_FALSE(all_pass(broken));
  EXPECT_FALSE(broken[2].verdict.pass);
  EXPECT_EQ(broken[2].verdict.worst_row, 6);  // the second token of the last rank, after five others
  EXPECT_NE(describe(broken).find("d_router_weights: FAIL"), std::string::npos);

  candidate.d_up.pop_back();
  EXPECT_THROW(compare_all(problem, exact, rounded, candidate), std::invalid_argument);
}

TEST(CompareAll, AcceptsAForwardOnlyEvaluation) {
  const Problem problem = random_problem({});
  Options options;
  const Result exact = forward(problem, options);
  options.rounding = Rounding::section2;
  const Result rounded = forward(problem, options);
  EXPECT_TRUE(all_pass(compare_all(problem, exact, rounded, as_candidate(rounded))));
}

}  // namespace
}  // namespace mok::reference
