// SPDX-License-Identifier: Apache-2.0
// The CPU backend against the float64 reference, within the derived bound.
#include <gtest/gtest.h>

#include "reference/bound.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"

namespace mok::testing {
namespace {

struct Case {
  const char* name;
  reference::ProblemOptions problem;
  RunOptions run;
};

reference::ProblemOptions shape(std::int64_t tokens, std::int64_t hidden, std::int64_t intermediate,
                                std::int64_t experts, std::int64_t topk, std::size_t ranks) {
  reference::ProblemOptions options;
  options.hidden = hidden;
  options.intermediate = intermediate;
  options.experts = experts;
  options.topk = topk;
  options.tokens_per_rank.assign(ranks, tokens);
  return options;
}

void expect_within_bound(const reference::ProblemOptions& options, const RunOptions& run) {
  const reference::Problem problem = reference::random_problem(options);
  const reference::WeightGradients gradients =
      run.main_grad ? reference::WeightGradients::main_grad : reference::WeightGradients::bfloat16;
  const reference::Result exact = reference::evaluate(problem, reference::Options{reference::Rounding::none, gradients});
  const reference::Result rounded =
      reference::evaluate(problem, reference::Options{reference::Rounding::section2, gradients});
  const LayerRun result = run_layer(problem, run);
  const auto reports = reference::compare_all(problem, exact, rounded, result.candidate);
  EXPECT_TRUE(reference::all_pass(reports)) << reference::describe(reports);
}

TEST(Reference, Smoke) { expect_within_bound(shape(64, 64, 64, 4, 2, 1), {}); }
TEST(Reference, FourRanks) { expect_within_bound(shape(100, 128, 192, 8, 2, 4), {}); }

}  // namespace
}  // namespace mok::testing
