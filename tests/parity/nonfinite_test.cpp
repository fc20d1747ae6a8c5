// SPDX-License-Identifier: Apache-2.0
// NaN and infinities reach exactly what depends on them: everything else keeps the bits that it has without
// them.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reference/bound.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

using reference::Problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two ranks, dropped routes, a shared expert; several macrobatches per rank.
Problem make_problem() {
  reference::ProblemOptions options = shape(0, 128, 64, 4, 2, 1);
  options.tokens_per_rank = {150, 110};
  if (small_tests()) options.tokens_per_rank = {40, 30};
  options.shared_intermediate = 64;
  options.router_weights = reference::RouterWeights::signed_normal;
  options.dropped_fraction = 0.2;
  options.seed = 21;
  return reference::random_problem(options);
}

RunOptions several_macrobatches() {
  RunOptions run;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = 128;
  run.config.schedule_capacity_multiplier = 1.0;
  run.expert_gap = 64;  // filled with NaN
  return run;
}

LayerRun run(const Problem& problem) { return run_layer(problem, several_macrobatches()); }

/// Which elements depend on the planted value.
class Reach {
 public:
  explicit Reach(const Problem& problem) : problem_(problem), marks_(run(problem)) {
    for (auto* tensor : {&marks_.out, &marks_.d_x, &marks_.d_router_weights, &marks_.d_gate, &marks_.d_up,
                         &marks_.d_down, &marks_.d_shared_gate, &marks_.d_shared_up, &marks_.d_shared_down}) {
      tensor->assign(tensor->size(), 0.0f);
    }
  }

  void out(std::size_t token, std::int64_t col) { mark(marks_.out, element(token, problem_.hidden, col)); }
  void out(std::size_t token) { row(marks_.out, token, problem_.hidden); }
  void d_x(std::size_t token) { row(marks_.d_x, token, problem_.hidden); }
  void d_router_weight(std::size_t token, std::int64_t k) {
    mark(marks_.d_router_weights, element(token, problem_.topk, k));
  }
  /// Row i of the gradient of gate or up, of an expert.
  void d_gate(std::int64_t expert, std::int64_t i) { row(marks_.d_gate, wide(expert, i), problem_.hidden); }
  void d_up(std::int64_t expert, std::int64_t i) { row(marks_.d_up, wide(expert, i), problem_.hidden); }
  /// Row h, column i of the gradient of down, of an expert.
  void d_down_row(std::int64_t expert, std::int64_t h) {
    row(marks_.d_down, static_cast<std::size_t>(expert * problem_.hidden + h), problem_.intermediate);
  }
  void d_down_column(std::int64_t expert, std::int64_t i) {
    for (std::int64_t h = 0; h < problem_.hidden; ++h) {
      mark(marks_.d_down,
           element(static_cast<std::size_t>(expert * problem_.hidden + h), problem_.intermediate, i));
    }
  }
  void expert_gradients(std::int64_t expert) {
    for (std::int64_t i = 0; i < problem_.intermediate; ++i) {
      d_gate(expert, i);
      d_up(expert, i);
      d_down_column(expert, i);
    }
  }
  /// Gradients of the shared gate and up of a rank; of down, the row of a column of dO or all of it (-1).
  void d_shared(std::size_t rank, std::int64_t h) {
    const std::int64_t s = problem_.shared_intermediate;
    for (std::int64_t i = 0; i < s; ++i) {
      row(marks_.d_shared_gate, rank * static_cast<std::size_t>(s) + static_cast<std::size_t>(i),
          problem_.hidden);
      row(marks_.d_shared_up, rank * static_cast<std::size_t>(s) + static_cast<std::size_t>(i),
          problem_.hidden);
    }
    for (std::int64_t r = 0; r < problem_.hidden; ++r) {
      if (h >= 0 && r != h) continue;
      row(marks_.d_shared_down,
          rank * static_cast<std::size_t>(problem_.hidden) + static_cast<std::size_t>(r), s);
    }
  }

  /// Wants what is marked to be NaN (`exactly`) or to be free, and all else unchanged.
  void expect(const LayerRun& clean, const LayerRun& planted, bool exactly) const {
    expect_tensor("out", marks_.out, clean.out, planted.out, exactly);
    expect_tensor("d_x", marks_.d_x, clean.d_x, planted.d_x, exactly);
    expect_tensor("d_router_weights", marks_.d_router_weights, clean.d_router_weights,
                  planted.d_router_weights, exactly);
    expect_tensor("d_gate", marks_.d_gate, clean.d_gate, planted.d_gate, exactly);
    expect_tensor("d_up", marks_.d_up, clean.d_up, planted.d_up, exactly);
    expect_tensor("d_down", marks_.d_down, clean.d_down, planted.d_down, exactly);
    expect_tensor("d_shared_gate", marks_.d_shared_gate, clean.d_shared_gate, planted.d_shared_gate, exactly);
    expect_tensor("d_shared_up", marks_.d_shared_up, clean.d_shared_up, planted.d_shared_up, exactly);
    expect_tensor("d_shared_down", marks_.d_shared_down, clean.d_shared_down, planted.d_shared_down, exactly);
  }

 private:
  static void mark(std::vector<float>& tensor, std::size_t at) { tensor[at] = 1.0f; }
  static std::size_t element(std::size_t row, std::int64_t cols, std::int64_t col) {
    return row * static_cast<std::size_t>(cols) + static_cast<std::size_t>(col);
  }
  static void row(std::vector<float>& tensor, std::size_t row, std::int64_t cols) {
    for (std::int64_t col = 0; col < cols; ++col) mark(tensor, element(row, cols, col));
  }
  [[nodiscard]] std::size_t wide(std::int64_t expert, std::int64_t i) const {
    return static_cast<std::size_t>(expert * problem_.intermediate + i);
  }
  static void expect_tensor(const char* name, const std::vector<float>& marks,
                            const std::vector<float>& clean, const std::vector<float>& planted,
                            bool exactly) {
    std::size_t changed = 0;
    std::size_t missed = 0;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (marks[i] == 0.0f && std::memcmp(&clean[i], &planted[i], sizeof(float)) != 0) ++changed;
      if (marks[i] != 0.0f && exactly && !std::isnan(planted[i])) ++missed;
    }
    EXPECT_EQ(0u, changed) << name << ": elements that do not depend on the value and changed";
    EXPECT_EQ(0u, missed) << name << ": elements that depend on the value and are not NaN";
  }

  const Problem& problem_;
  LayerRun marks_;
};

/// A token of rank 1 none of whose routes is dropped; its number there, and over all ranks.
struct Token {
  std::size_t at_rank, overall;
};
Token whole_token(const Problem& problem) {
  const reference::RankInput& rank = problem.ranks[1];
  for (std::size_t t = 3;; ++t) {
    if (rank.topk_experts[2 * t] >= 0 && rank.topk_experts[2 * t + 1] >= 0) {
      return {t, t + static_cast<std::size_t>(problem.ranks[0].tokens)};
    }
  }
}

/// Calls visit(token over all ranks, k, expert) for every route.
template <class Visit>
void for_each_route(const Problem& problem, Visit visit) {
  std::size_t token = 0;
  for (const reference::RankInput& rank : problem.ranks) {
    for (std::size_t i = 0; i < rank.topk_experts.size(); ++i) {
      if (rank.topk_experts[i] >= 0)
        visit(token + i / 2, static_cast<std::int64_t>(i % 2), rank.topk_experts[i]);
    }
    token += static_cast<std::size_t>(rank.tokens);
  }
}

class NonFinite : public ::testing::TestWithParam<double> {
 protected:
  [[nodiscard]] double value() const { return GetParam(); }
  void expect(const Reach& reach) const {
    const LayerRun with = run(planted_);
    reach.expect(run(clean_), with, std::isnan(value()));
  }
  std::int32_t expert_of(std::size_t token, std::size_t k) const {
    return clean_.ranks[1].topk_experts[2 * token + k];
  }

  const Problem clean_ = make_problem();
  Problem planted_ = clean_;
};

std::string name_of(const ::testing::TestParamInfo<double>& info) {
  return std::isnan(info.param) ? "NaN" : info.param > 0 ? "Infinity" : "MinusInfinity";
}
INSTANTIATE_TEST_SUITE_P(Value, NonFinite, ::testing::Values(kNaN, kInfinity, -kInfinity), name_of);

TEST_P(NonFinite, XReachesItsTokenAndTheGradientsOfItsExperts) {
  const Token token = whole_token(clean_);
  planted_.ranks[1].x[token.at_rank * 128 + 77] = value();
  Reach reach(clean_);
  reach.out(token.overall);
  reach.d_x(token.overall);
  for (const std::size_t k : {0u, 1u}) {
    reach.d_router_weight(token.overall, static_cast<std::int64_t>(k));
    reach.expert_gradients(expert_of(token.at_rank, k));
  }
  reach.d_shared(1, -1);
  expect(reach);
}

TEST_P(NonFinite, GradOutputReachesNoOutputAndOneRowOfTheGradientOfDown) {
  const Token token = whole_token(clean_);
  constexpr std::int64_t kColumn = 77;
  planted_.ranks[1].grad_output[token.at_rank * 128 + kColumn] = value();
  Reach reach(clean_);
  reach.d_x(token.overall);
  for (const std::size_t k : {0u, 1u}) {
    reach.d_router_weight(token.overall, static_cast<std::int64_t>(k));
    const std::int32_t expert = expert_of(token.at_rank, k);
    reach.d_down_row(expert, kColumn);
    for (std::int64_t i = 0; i < clean_.intermediate; ++i) {
      reach.d_gate(expert, i);
      reach.d_up(expert, i);
    }
  }
  reach.d_shared(1, kColumn);
  expect(reach);
}

// Its own gradient does not depend on a router weight; nothing at all does on that of a dropped route.
TEST_P(NonFinite, RouterWeightReachesItsTokenAndTheGradientsOfItsExpert) {
  const Token token = whole_token(clean_);
  planted_.ranks[1].router_weights[token.at_rank * 2 + 1] = value();
  for (reference::RankInput& rank : planted_.ranks) {
    for (std::size_t i = 0; i < rank.topk_experts.size(); ++i) {
      if (rank.topk_experts[i] < 0) rank.router_weights[i] = value();
    }
  }
  Reach reach(clean_);
  reach.out(token.overall);
  reach.d_x(token.overall);
  reach.expert_gradients(expert_of(token.at_rank, 1));
  expect(reach);
}

constexpr std::int64_t kExpert = 1;  // its neighbours are on the same rank and on the other
constexpr std::int64_t kUnit = 42;

std::size_t weight_at(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col) {
  return static_cast<std::size_t>((kExpert * rows + row) * cols + col);
}

/// Everything that a token owns, for the tokens that went to kExpert.
void reach_tokens_of_expert(const reference::Problem& problem, Reach& reach) {
  for_each_route(problem, [&](std::size_t token, std::int64_t k, std::int32_t expert) {
    if (expert != kExpert) return;
    reach.out(token);
    reach.d_x(token);
    reach.d_router_weight(token, k);
  });
}

TEST_P(NonFinite, GateWeightReachesTheTokensAndOneUnitOfItsExpert) {
  planted_.gate[weight_at(64, 128, kUnit, 77)] = value();
  Reach reach(clean_);
  reach_tokens_of_expert(clean_, reach);
  reach.d_gate(kExpert, kUnit);
  reach.d_up(kExpert, kUnit);
  reach.d_down_column(kExpert, kUnit);
  expect(reach);
}

TEST_P(NonFinite, UpWeightReachesTheTokensAndOneUnitOfItsExpertButNotItsOwnGradient) {
  planted_.up[weight_at(64, 128, kUnit, 77)] = value();
  Reach reach(clean_);
  reach_tokens_of_expert(clean_, reach);
  reach.d_gate(kExpert, kUnit);
  reach.d_down_column(kExpert, kUnit);
  expect(reach);
}

TEST_P(NonFinite, DownWeightReachesOneColumnOfTheTokensOfItsExpert) {
  planted_.down[weight_at(128, 64, 77, kUnit)] = value();
  Reach reach(clean_);
  for_each_route(clean_, [&](std::size_t token, std::int64_t k, std::int32_t expert) {
    if (expert != kExpert) return;
    reach.out(token, 77);
    reach.d_x(token);
    reach.d_router_weight(token, k);
  });
  reach.d_gate(kExpert, kUnit);
  reach.d_up(kExpert, kUnit);
  expect(reach);
}

TEST_P(NonFinite, WeightsOfAWholeExpertDoNotReachItsNeighbours) {
  for (std::int64_t n = 0; n < 64 * 128; ++n) {
    const auto at = static_cast<std::size_t>(kExpert * 64 * 128 + n);
    planted_.gate[at] = planted_.up[at] = planted_.down[at] = value();
  }
  Reach reach(clean_);
  reach_tokens_of_expert(clean_, reach);
  reach.expert_gradients(kExpert);
  expect(reach);
}

/// A rank's only row in 128: where its values are infinite, padding rows (0 * infinity) would be NaN and
/// would turn infinite gradients into NaN.
TEST(InfiniteWeights, DoNotTurnPaddingIntoNaN) {
  reference::ProblemOptions options = shape(1, 64, 64, 1, 1, 1);
  options.seed = 22;
  for (const char* const weight : {"up", "down"}) {
    Problem problem = reference::random_problem(options);
    std::vector<double>& planted = std::string(weight) == "up" ? problem.up : problem.down;
    planted[5 * 64 + 9] = kInfinity;
    const LayerRun result = run_layer(problem);
    const std::vector<float>& gradient = std::string(weight) == "up" ? result.d_down : result.d_gate;
    std::size_t infinite = 0;
    for (const float value : gradient) {
      EXPECT_FALSE(std::isnan(value)) << weight;
      if (std::isinf(value)) ++infinite;
    }
    EXPECT_EQ(64u, infinite) << weight;
    reference::Options reference_options;
    const reference::Result exact = reference::evaluate(problem, reference_options);
    reference_options.rounding = reference::Rounding::section2;
    const reference::Result rounded = reference::evaluate(problem, reference_options);
    const auto reports = reference::compare_all(problem, exact, rounded, result.candidate);
    EXPECT_TRUE(reference::all_pass(reports)) << reference::describe(reports);
  }
}

// R6: gaps between experts may hold anything, and stay as they are.
TEST(GapsBetweenExperts, AreNeitherReadNorWritten) {
  const Problem problem = make_problem();
  for (const bool main_grad : {false, true}) {
    RunOptions options = several_macrobatches();
    options.main_grad = main_grad;
    LayerHarness harness(problem, options);
    Workspace workspace(options.config, harness.workspace_options());
    const Schedule schedule = harness.schedule(workspace);
    const ForwardContext context = harness.forward(workspace, schedule);
    const std::vector<BackwardInput> inputs = harness.backward_inputs();
    const std::size_t size = main_grad ? 4 : 2;
    const auto gap_of = [&](const TensorView& gradient, std::int64_t expert) {
      const std::int64_t end = expert * gradient.stride[0] + problem.intermediate * problem.hidden;
      return static_cast<std::byte*>(gradient.data) + static_cast<std::size_t>(end) * size;
    };
    const auto for_each_gap = [&](const auto& visit) {
      for (const BackwardInput& input : inputs) {
        for (const TensorView* gradient : {&input.d_routed.gate, &input.d_routed.up, &input.d_routed.down}) {
          for (std::int64_t expert = 0; expert < 2; ++expert) visit(gap_of(*gradient, expert));
        }
      }
    };
    const std::vector<std::byte> pattern(64 * size, std::byte{0xA5});
    for_each_gap([&](std::byte* gap) { std::memcpy(gap, pattern.data(), pattern.size()); });
    backward(workspace, schedule, context, inputs, harness.pass_options());
    for_each_gap([&](std::byte* gap) { EXPECT_EQ(0, std::memcmp(gap, pattern.data(), pattern.size())); });
  }
}

}  // namespace
}  // namespace mok::testing
