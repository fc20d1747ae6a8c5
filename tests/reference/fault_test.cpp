// SPDX-License-Identifier: Apache-2.0
// The bound against a float32 layer: it must pass as it is, and fail with any fault, in the tensor that the
// test's name gives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "faulty_layer.h"
#include "reference/bound.h"
#include "reference/random_problem.h"

namespace mok::reference {
namespace {

struct Shape {
  std::int64_t tokens, hidden, intermediate, experts, topk, ranks, shared_intermediate;
};

std::string shape_name(const Shape& s) {
  const auto part = [](const char* key, std::int64_t value) { return key + std::to_string(value); };
  return part("T", s.tokens) + part("_H", s.hidden) + part("_I", s.intermediate) + part("_E", s.experts) +
         part("_K", s.topk) + part("_R", s.ranks) + part("_Is", s.shared_intermediate);
}

ProblemOptions options_of(const Shape& s) {
  ProblemOptions options;
  options.seed = static_cast<std::uint64_t>(s.tokens * 31 + s.hidden);
  options.hidden = s.hidden;
  options.intermediate = s.intermediate;
  options.shared_intermediate = s.shared_intermediate;
  options.experts = s.experts;
  options.topk = s.topk;
  options.tokens_per_rank.assign(static_cast<std::size_t>(s.ranks), s.tokens);
  return options;
}

std::vector<TensorReport> reports_of(const Problem& problem, Fault fault,
                                     WeightGradients weight_gradients = WeightGradients::bfloat16) {
  Options options;
  options.weight_gradients = weight_gradients;
  const Result exact = evaluate(problem, options);
  options.rounding = Rounding::section2;
  const Result rounded = evaluate(problem, options);
  return compare_all(problem, exact, rounded, run_faulty_layer(problem, fault, weight_gradients));
}

void expect_pass(const Problem& problem, WeightGradients weight_gradients = WeightGradients::bfloat16) {
  const std::vector<TensorReport> reports = reports_of(problem, Fault::none, weight_gradients);
  EXPECT_TRUE(all_pass(reports)) << describe(reports);
}

class Faultless : public testing::TestWithParam<Shape> {};

TEST_P(Faultless, PassesWithNormalisedWeights) { expect_pass(random_problem(options_of(GetParam()))); }

TEST_P(Faultless, PassesWithSignedWeightsSkewDroppedRoutesAndLimit) {
  ProblemOptions options = options_of(GetParam());
  options.router_weights = RouterWeights::signed_normal;
  options.zero_weight_fraction = 0.1;
  options.routing = Routing::skewed;
  options.dropped_fraction = 0.1;
  options.swiglu_limit = kBitingLimit;
  expect_pass(random_problem(options));
}

TEST_P(Faultless, PassesInTheTailOfTheGate) {
  ProblemOptions options = options_of(GetParam());
  options.gate_range = kGateTail;
  expect_pass(random_problem(options));
}

TEST_P(Faultless, PassesWithUnevenRanksAndMainGrad) {
  ProblemOptions options = options_of(GetParam());
  options.tokens_per_rank[0] = 0;
  options.tokens_per_rank.back() += 3;
  options.router_weights = RouterWeights::signed_normal;
  expect_pass(random_problem(options), WeightGradients::main_grad);
}

// Float sums that end on the other side of a rounding boundary are rare. A rounding point that only one of
// the two has, on the other hand, moves a large part of the elements that depend on it.
TEST(RoundingPoints, AreThoseOfTheFloatLayer) {
  ProblemOptions options = options_of({64, 128, 64, 4, 3, 2, 64});
  options.router_weights = RouterWeights::signed_normal;
  const Problem problem = random_problem(options);
  for (const TensorReport& report : reports_of(problem, Fault::none)) {
    if (report.name == "d_router_weights") continue;  // a float: its last bit depends on the order of the sum
    EXPECT_GT(report.verdict.equal_share, 0.97) << report.name;
  }
}

const auto shape_param_name = [](const testing::TestParamInfo<Shape>& info) {
  return shape_name(info.param);
};

INSTANTIATE_TEST_SUITE_P(Shapes, Faultless,
                         testing::Values(Shape{512, 256, 128, 8, 2, 4, 0}, Shape{333, 320, 192, 6, 3, 2, 64},
                                         Shape{64, 64, 64, 4, 4, 1, 128}, Shape{1, 64, 64, 2, 1, 2, 0}),
                         shape_param_name);

// Problem on which a fault must show, and the tensor in which it must.
struct FaultCase {
  Fault fault;
  const char* tensor;
};

void PrintTo(const FaultCase& fault_case, std::ostream* stream) { *stream << fault_name(fault_case.fault); }

Problem problem_for(Fault fault, const Shape& shape) {
  ProblemOptions options = options_of(shape);
  options.router_weights = RouterWeights::signed_normal;
  options.dropped_fraction = 0.1;
  if (fault == Fault::approximate_sigmoid) options.gate_range = kGateTail;
  if (fault == Fault::one_sided_up_limit || fault == Fault::mask_multiplied)
    options.swiglu_limit = kBitingLimit;
  Problem problem = random_problem(options);
  if (fault == Fault::mask_multiplied) {
    // Where the limit cut the gate of this token off, its NaN must not reach the weight gradient's row.
    problem.ranks[0].grad_output[0] = std::numeric_limits<double>::quiet_NaN();
  }
  return problem;
}

class SeededFault : public testing::TestWithParam<std::tuple<FaultCase, Shape>> {};

TEST_P(SeededFault, FailsTheBound) {
  const FaultCase fault_case = std::get<0>(GetParam());
  const Shape shape = std::get<1>(GetParam());
  const Problem problem = problem_for(fault_case.fault, shape);
  const std::vector<TensorReport> clean = reports_of(problem, Fault::none);
  EXPECT_TRUE(all_pass(clean)) << describe(clean);
  const std::vector<TensorReport> reports = reports_of(problem, fault_case.fault);
  const auto report = std::find_if(reports.begin(), reports.end(),
                                   [&](const TensorReport& r) { return r.name == fault_case.tensor; });
  ASSERT_NE(report, reports.end());
  EXPECT_FALSE(report->verdict.pass) << describe(reports);
}

const auto fault_param_name = [](const testing::TestParamInfo<std::tuple<FaultCase, Shape>>& info) {
  const auto& [fault_case, shape] = info.param;
  return std::string(fault_name(fault_case.fault)) + "_in_" + fault_case.tensor + "_" + shape_name(shape);
};

INSTANTIATE_TEST_SUITE_P(
    Faults, SeededFault,
    testing::Combine(
        testing::Values(
            FaultCase{Fault::tanh_for_sigmoid, "out"}, FaultCase{Fault::approximate_sigmoid, "out"},
            FaultCase{Fault::route_left_out, "out"}, FaultCase{Fault::weight_applied_twice, "out"},
            FaultCase{Fault::gate_and_up_swapped, "out"}, FaultCase{Fault::row_shifted, "out"},
            FaultCase{Fault::k_step_missing, "out"}, FaultCase{Fault::dropped_route_times_zero, "out"},
            FaultCase{Fault::one_sided_up_limit, "out"},
            FaultCase{Fault::d_w_from_weighted_d_hidden, "d_router_weights"},
            FaultCase{Fault::d_hidden_k_step_missing, "d_gate"}, FaultCase{Fault::mask_multiplied, "d_gate"},
            FaultCase{Fault::short_silu_derivative, "d_gate"}, FaultCase{Fault::unweighted_d_up, "d_up"},
            FaultCase{Fault::d_x_without_up, "d_x"}, FaultCase{Fault::unweighted_down_gradient, "d_down"},
            FaultCase{Fault::gradient_row_missing, "d_gate"}, FaultCase{Fault::gradient_row_missing, "d_up"},
            FaultCase{Fault::gradient_row_missing, "d_down"},
            FaultCase{Fault::shared_gradient_row_missing, "d_shared_gate"},
            FaultCase{Fault::shared_gradient_row_missing, "d_shared_up"},
            FaultCase{Fault::shared_gradient_row_missing, "d_shared_down"}),
        testing::Values(Shape{96, 128, 64, 4, 2, 2, 64}, Shape{64, 64, 64, 4, 4, 1, 128},
                        Shape{70, 192, 128, 6, 3, 2, 32})),
    fault_param_name);

// A rounding too many is as large as the roundings that are allowed, so on random data the factor two hides
// it. Here every stored value of the forward pass is exact (to 1e-14), and so are the sums: dHraw is an
// integer that bf16 cannot hold, and any rounding of it shows.
Problem exact_problem(std::int64_t tokens, std::int64_t hidden, std::int64_t intermediate) {
  ProblemOptions options;
  options.hidden = hidden;
  options.intermediate = intermediate;
  options.tokens_per_rank = {tokens, tokens};
  options.router_weights = RouterWeights::signed_normal;
  Problem problem = random_problem(options);
  std::mt19937_64 random(5);
  const auto small_integer = [&] { return static_cast<double>(random() % 15) - 7.0; };
  std::fill(problem.gate.begin(), problem.gate.end(), 32.0);  // silu(32) = 32 (1 - 1e-14)
  for (double& value : problem.up) value = random() % 2 == 0 ? 1.0 : -2.0;
  for (double& value : problem.down) value = small_integer();
  for (RankInput& input : problem.ranks) {
    std::fill(input.x.begin(), input.x.end(), 0.0);
    for (std::int64_t t = 0; t < tokens; ++t)
      input.x[static_cast<std::size_t>(t * hidden + t % hidden)] = 1.0;
    for (double& value : input.grad_output) value = small_integer();
  }
  return problem;
}

class RoundingTooMany : public testing::TestWithParam<Shape> {};

TEST_P(RoundingTooMany, OfDHiddenFailsInDRouterWeights) {
  const Problem problem = exact_problem(GetParam().tokens, GetParam().hidden, GetParam().intermediate);
  expect_pass(problem);
  EXPECT_FALSE(reports_of(problem, Fault::d_w_from_rounded_d_hidden)[2].verdict.pass);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RoundingTooMany,
                         testing::Values(Shape{64, 64, 64, 4, 2, 2, 0}, Shape{33, 128, 64, 4, 2, 2, 0},
                                         Shape{5, 192, 128, 4, 2, 2, 0}),
                         shape_param_name);

}  // namespace
}  // namespace mok::reference
