// SPDX-License-Identifier: Apache-2.0
// Every gradient of the float64 reference against finite differences of its forward pass.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/moe_reference.h"
#include "reference/random_problem.h"

namespace mok::reference {
namespace {

constexpr double kStep = 1e-4;
constexpr double kTolerance = 1e-7;
// No gate or up value may come this close to the limit: a step would cross the kink there.
constexpr double kKinkMargin = 3e-3;

ProblemOptions base_options() {
  ProblemOptions options;
  options.seed = 11;
  options.hidden = 6;
  options.intermediate = 5;
  options.shared_intermediate = 3;
  options.experts = 3;
  options.topk = 2;
  options.tokens_per_rank = {3, 0, 5};
  return options;
}

double dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// The magnitudes of all G and U that the problem computes, and some that it does not (every token on every
// expert).
std::vector<double> gate_and_up_magnitudes(const Problem& problem) {
  std::vector<double> values;
  for (const RankInput& input : problem.ranks) {
    for (std::int64_t token = 0; token < input.tokens; ++token) {
      const double* x = input.x.data() + token * problem.hidden;
      for (const auto* weights : {&problem.gate, &problem.up, &problem.shared_gate, &problem.shared_up}) {
        const std::int64_t rows = static_cast<std::int64_t>(weights->size()) / problem.hidden;
        for (std::int64_t row = 0; row < rows; ++row) {
          values.push_back(std::abs(dot(x, weights->data() + row * problem.hidden, problem.hidden)));
        }
      }
    }
  }
  return values;
}

// A limit in the middle of the widest gap between the magnitudes from 0.4 to 1.2.
double limit_away_from_kinks(const Problem& problem) {
  std::vector<double> values = gate_and_up_magnitudes(problem);
  std::sort(values.begin(), values.end());
  double limit = 0.0, widest = 0.0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i - 1] < 0.4 || values[i] > 1.2 || values[i] - values[i - 1] <= widest) continue;
    widest = values[i] - values[i - 1];
    limit = (values[i] + values[i - 1]) / 2;
  }
  EXPECT_GT(widest / 2, kKinkMargin);
  return limit;
}

// sum(out * dO) as a function of one input value, and its derivative by central differences of fourth order.
class Loss {
 public:
  explicit Loss(Problem& problem) : problem_(problem) {}

  double derivative(double& input) {
    const double at = input;
    const auto outputs_at = [&](double value) {
      input = value;
      Options options;
      options.threads = 1;
      return forward(problem_, options);
    };
    const Result up1 = outputs_at(at + kStep), down1 = outputs_at(at - kStep);
    const Result up2 = outputs_at(at + 2 * kStep), down2 = outputs_at(at - 2 * kStep);
    input = at;
    // Differences are taken per output element, before the sum: less cancels.
    return (8.0 * difference(up1, down1) - difference(up2, down2)) / (12.0 * kStep);
  }

 private:
  double difference(const Result& a, const Result& b) const {
    double sum = 0.0;
    for (std::size_t rank = 0; rank < problem_.ranks.size(); ++rank) {
      const std::vector<double>& grad_output = problem_.ranks[rank].grad_output;
      for (std::size_t i = 0; i < grad_output.size(); ++i) {
        sum += (a.ranks[rank].out[i] - b.ranks[rank].out[i]) * grad_output[i];
      }
    }
    return sum;
  }

  Problem& problem_;
};

void expect_gradient(const std::string& name, Loss& loss, std::vector<double>& inputs,
                     const std::vector<double>& gradient) {
  SCOPED_TRACE(name);
  ASSERT_EQ(inputs.size(), gradient.size());
  double largest = 0.0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double expected = loss.derivative(inputs[i]);
    // The second term is the noise of differences of rounded numbers, which does not shrink with the element.
    ASSERT_NEAR(gradient[i], expected, kTolerance * std::abs(expected) + 1e-2 * kTolerance * largest + 1e-12)
        << "element " << i;
  }
}

// Shared weights are replicated: the loss's gradient is the sum of what the ranks report.
std::vector<double> summed(const Result& result, std::vector<double> BasicRankResult<double>::*field) {
  std::vector<double> sum;
  for (const auto& rank : result.ranks) {
    sum.resize((rank.*field).size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += (rank.*field)[i];
  }
  return sum;
}

void expect_all_gradients(Problem problem) {
  using RankGradients = BasicRankResult<double>;
  const Result result = evaluate(problem, Rounding::none);
  Loss loss(problem);
  for (std::size_t rank = 0; rank < problem.ranks.size(); ++rank) {
    const std::string where = " of rank " + std::to_string(rank);
    expect_gradient("d_x" + where, loss, problem.ranks[rank].x, result.ranks[rank].d_x);
    expect_gradient("d_router_weights" + where, loss, problem.ranks[rank].router_weights,
                    result.ranks[rank].d_router_weights);
  }
  expect_gradient("d_gate", loss, problem.gate, result.d_gate);
  expect_gradient("d_up", loss, problem.up, result.d_up);
  expect_gradient("d_down", loss, problem.down, result.d_down);
  if (problem.shared_intermediate == 0) return;
  expect_gradient("d_shared_gate", loss, problem.shared_gate, summed(result, &RankGradients::d_shared_gate));
  expect_gradient("d_shared_up", loss, problem.shared_up, summed(result, &RankGradients::d_shared_up));
  expect_gradient("d_shared_down", loss, problem.shared_down, summed(result, &RankGradients::d_shared_down));
}

TEST(FiniteDifferences, UnevenRanks) { expect_all_gradients(random_problem(base_options())); }

TEST(FiniteDifferences, WithLimit) {
  Problem problem = random_problem(base_options());
  problem.swiglu_limit = limit_away_from_kinks(problem);
  expect_all_gradients(problem);
}

TEST(FiniteDifferences, DroppedRoutes) {
  ProblemOptions options = base_options();
  options.dropped_fraction = 0.4;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, NegativeAndZeroRouterWeights) {
  ProblemOptions options = base_options();
  options.router_weights = RouterWeights::signed_normal;
  options.zero_weight_fraction = 0.3;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, LimitWithNegativeWeightsAndDroppedRoutes) {
  ProblemOptions options = base_options();
  options.seed = 12;
  options.router_weights = RouterWeights::signed_normal;
  options.dropped_fraction = 0.2;
  Problem problem = random_problem(options);
  problem.swiglu_limit = limit_away_from_kinks(problem);
  expect_all_gradients(problem);
}

TEST(FiniteDifferences, ExpertWithNoRows) {
  Problem problem = random_problem(base_options());
  for (RankInput& input : problem.ranks) {
    std::replace(input.topk_experts.begin(), input.topk_experts.end(), 1, -1);
  }
  expect_all_gradients(problem);
}

TEST(FiniteDifferences, OneChoice) {
  ProblemOptions options = base_options();
  options.topk = 1;
  options.router_weights = RouterWeights::signed_normal;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, OneExpert) {
  ProblemOptions options = base_options();
  options.experts = 1;
  options.topk = 1;
  options.router_weights = RouterWeights::signed_normal;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, AllRoutesToOneExpertTwice) {
  ProblemOptions options = base_options();
  options.routing = Routing::one_expert;
  options.hot_expert = 2;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, NoSharedExpert) {
  ProblemOptions options = base_options();
  options.shared_intermediate = 0;
  expect_all_gradients(random_problem(options));
}

TEST(FiniteDifferences, TailOfTheGate) {
  ProblemOptions options = base_options();
  options.gate_range = kGateTail;
  expect_all_gradients(random_problem(options));
}

}  // namespace
}  // namespace mok::reference
