// SPDX-License-Identifier: Apache-2.0
// R9: an f32 main_grad gets the gradient added once, with one rounding; what nothing is added to keeps its
// bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

RunOptions small_steps(bool main_grad) {
  RunOptions run;
  run.main_grad = main_grad;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = 128;
  return run;
}

/// Expert 0 is cut by macrobatches, experts 3 to 7 have few rows or none.
reference::Problem make_problem() {
  reference::ProblemOptions options = mixed_problem({150, 0, 90, 2}, 5);
  options.dropped_fraction = 0.3;
  reference::Problem problem = reference::random_problem(options);
  for (reference::RankInput& rank : problem.ranks) {
    for (std::int32_t& id : rank.topk_experts) id = id == 1 || id >= 6 ? -1 : id;
  }
  return problem;
}

bool has_rows(const reference::Problem& problem, std::int64_t expert) {
  for (const reference::RankInput& rank : problem.ranks) {
    for (const std::int32_t id : rank.topk_experts) {
      if (id == expert) return true;
    }
  }
  return false;
}

std::vector<TensorView> gradients_of(const BackwardInput& input) {
  return {input.d_routed.gate, input.d_routed.up, input.d_routed.down,
          input.d_shared.gate, input.d_shared.up, input.d_shared.down};
}

std::vector<float> copy_of(const TensorView& gradient) {
  std::int64_t elements = 1;
  for (int d = 0; d < gradient.dims; ++d) elements *= gradient.shape[static_cast<std::size_t>(d)];
  const auto* const data = static_cast<const float*>(gradient.data);
  return {data, data + elements};
}

/// A forward pass and what backward passes from it leave in main_grads that start with `before` of the
/// element.
template <class Before>
std::vector<std::vector<float>> accumulate(const reference::Problem& problem, int times, Before before) {
  LayerHarness harness(problem, small_steps(true));
  Workspace workspace(small_steps(true).config, harness.workspace_options());
  const Schedule schedule = harness.schedule(workspace);
  const ForwardContext context = harness.forward(workspace, schedule);
  const std::vector<BackwardInput> inputs = harness.backward_inputs();
  for (const BackwardInput& input : inputs) {
    for (const TensorView& gradient : gradients_of(input)) {
      const std::size_t elements = copy_of(gradient).size();
      for (std::size_t i = 0; i < elements; ++i) static_cast<float*>(gradient.data)[i] = before(i);
    }
  }
  for (int i = 0; i < times; ++i) backward(workspace, schedule, context, inputs, harness.pass_options());
  std::vector<std::vector<float>> result;
  for (const BackwardInput& input : inputs) {
    for (const TensorView& gradient : gradients_of(input)) result.push_back(copy_of(gradient));
  }
  return result;
}

/// Of many magnitudes, so that adding rounds at every one of them.
float some_value(std::size_t i) {
  const auto hash = static_cast<std::uint32_t>(i * 2654435761u);
  const float mantissa = 1.0f + static_cast<float>(hash >> 9) * 0x1p-23f;
  return std::ldexp((hash & 1u) != 0 ? mantissa : -mantissa, static_cast<int>(hash >> 1 & 15u) - 12);
}

TEST(MainGrad, GetsTheGradientAddedOnceWithOneRounding) {
  const reference::Problem problem = make_problem();
  const auto gradient = accumulate(problem, 1, [](std::size_t) { return 0.0f; });
  const auto once = accumulate(problem, 1, some_value);
  const auto twice = accumulate(problem, 2, some_value);
  for (std::size_t tensor = 0; tensor < gradient.size(); ++tensor) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < gradient[tensor].size(); ++i) {
      const float added = some_value(i) + gradient[tensor][i];
      if (once[tensor][i] != added || twice[tensor][i] != added + gradient[tensor][i]) ++wrong;
    }
    EXPECT_EQ(0u, wrong) << "of " << gradient[tensor].size() << " elements of gradient " << tensor;
  }
}

TEST(MainGrad, RoundedOnceIsTheFreshGradient) {
  const reference::Problem problem = make_problem();
  const LayerRun accumulated = run_layer(problem, small_steps(true));
  const LayerRun fresh = run_layer(problem, small_steps(false));
  const auto rounded = [](const std::vector<float>& values) {
    std::vector<float> result;
    for (const float value : values) result.push_back(to_float(to_bfloat16(value)));
    return result;
  };
  EXPECT_TRUE(same_bits(fresh.d_gate, rounded(accumulated.d_gate)));
  EXPECT_TRUE(same_bits(fresh.d_up, rounded(accumulated.d_up)));
  EXPECT_TRUE(same_bits(fresh.d_down, rounded(accumulated.d_down)));
  EXPECT_TRUE(same_bits(fresh.d_shared_gate, rounded(accumulated.d_shared_gate)));
  EXPECT_TRUE(same_bits(fresh.d_shared_up, rounded(accumulated.d_shared_up)));
  EXPECT_TRUE(same_bits(fresh.d_shared_down, rounded(accumulated.d_shared_down)));
}

// R1: an expert without rows, a shared expert without tokens.
TEST(R1MainGrad, KeepsItsBitsWhereNothingIsAdded) {
  const reference::Problem problem = make_problem();
  static constexpr std::uint32_t kSignalling =
      0x7FD12345u;  // a NaN whose payload any arithmetic would quieten or replace
  const auto after = accumulate(problem, 1, [](std::size_t) { return std::bit_cast<float>(kSignalling); });
  const auto elements = static_cast<std::size_t>(problem.intermediate * problem.hidden);
  int without_rows = 0;
  for (std::size_t rank = 0; rank < problem.ranks.size(); ++rank) {
    for (std::int64_t local = 0; local < 2; ++local) {
      if (has_rows(problem, static_cast<std::int64_t>(rank) * 2 + local)) continue;
      ++without_rows;
      for (std::size_t matrix = 0; matrix < 3; ++matrix) {
        const auto begin = after[rank * 6 + matrix].begin() + local * problem.intermediate * problem.hidden;
        const auto same = [](float value) { return std::bit_cast<std::uint32_t>(value) == kSignalling; };
        EXPECT_TRUE(std::all_of(begin, begin + static_cast<std::ptrdiff_t>(elements), same));
      }
    }
    if (problem.ranks[rank].tokens > 0) continue;
    for (std::size_t matrix = 3; matrix < 6; ++matrix) {
      for (const float value : after[rank * 6 + matrix])
        ASSERT_EQ(kSignalling, std::bit_cast<std::uint32_t>(value));
    }
  }
  EXPECT_GE(without_rows, 3);
}

TEST(R1FreshGradients, AreExactZerosWhereThereAreNoRows) {
  const reference::Problem problem = make_problem();
  const LayerRun run = run_layer(problem, small_steps(false));
  const auto elements = static_cast<std::ptrdiff_t>(problem.intermediate * problem.hidden);
  const auto is_zero = [](float value) { return std::bit_cast<std::uint32_t>(value) == 0; };
  for (std::int64_t e = 0; e < problem.experts; ++e) {
    if (has_rows(problem, e)) continue;
    for (const auto* gradient : {&run.d_gate, &run.d_up, &run.d_down}) {
      const auto begin = gradient->begin() + e * elements;
      EXPECT_TRUE(std::all_of(begin, begin + elements, is_zero)) << "expert " << e;
    }
  }
  for (const auto* gradient : {&run.candidate.ranks[1].d_shared_gate, &run.candidate.ranks[1].d_shared_up,
                               &run.candidate.ranks[1].d_shared_down}) {
    EXPECT_TRUE(std::all_of(gradient->begin(), gradient->end(), is_zero)) << "a rank without tokens";
  }
}

/// Routed and shared gradients choose on their own between fresh and accumulated.
TEST(MainGrad, OfRoutedExpertsStandsBesideFreshSharedGradients) {
  const reference::Problem problem = make_problem();
  LayerHarness fresh(problem, small_steps(false));
  LayerHarness accumulated(problem, small_steps(true));
  Workspace workspace(small_steps(true).config, fresh.workspace_options());
  const Schedule schedule = fresh.schedule(workspace);
  const ForwardContext context = fresh.forward(workspace, schedule);
  std::vector<BackwardInput> inputs = fresh.backward_inputs();
  const std::vector<BackwardInput> others = accumulated.backward_inputs();
  for (std::size_t r = 0; r < inputs.size(); ++r) inputs[r].d_routed = others[r].d_routed;
  backward(workspace, schedule, context, inputs, fresh.pass_options());
  EXPECT_TRUE(same_bits(accumulated.results().d_gate, run_layer(problem, small_steps(true)).d_gate));
  EXPECT_TRUE(same_bits(fresh.results().d_shared_down, run_layer(problem, small_steps(false)).d_shared_down));
}

}  // namespace
}  // namespace mok::testing
