// SPDX-License-Identifier: Apache-2.0
// The order of every sum is the documented one, not only the same everywhere: each test computes the sum in
// float32 in that order, from operands that the layer itself hands out, and wants the same bits.
//
// How a test sees the operands: a router weight of 1 beside zeros gives one slot alone, all routes dropped
// give the shared expert alone, and with a down projection that is the identity the output is Hd and dHraw is
// dO.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/tile_gemm.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

using reference::Problem;

RunOptions any_routing(std::int64_t macrobatch = 131072) {
  RunOptions run;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = 128;
  run.config.macrobatch_size = macrobatch;
  return run;
}

float rounded(float value) { return to_float(to_bfloat16(value)); }

/// K = 4, several ranks, dropped routes; with a shared expert or without. Choices 0 and 2 of a token go to
/// the same expert with large weights of opposite sign: their slots cancel, and what is left of the others
/// shows the order in which float32 added them. (Slots of like size add up without an error that a bf16 would
/// show.)
Problem slots_problem(std::int64_t shared_intermediate) {
  reference::ProblemOptions options = shape(0, 128, 64, 8, 4, 1);
  options.tokens_per_rank = {70, 0, 41, 90};
  options.shared_intermediate = shared_intermediate;
  options.router_weights = reference::RouterWeights::signed_normal;
  options.dropped_fraction = 0.1;
  Problem problem = reference::random_problem(options);
  for (reference::RankInput& rank : problem.ranks) {
    for (std::size_t first = 0; first < rank.topk_experts.size(); first += 4) {
      if (rank.topk_experts[first] < 0 || rank.topk_experts[first + 2] < 0) continue;
      rank.topk_experts[first + 2] = rank.topk_experts[first];
      rank.router_weights[first] = 100003.0;
      rank.router_weights[first + 2] = -100003.0;
    }
  }
  return problem;
}

/// The router weights of choice k alone, either as they are or as 1.
Problem only_choice(const Problem& problem, std::int64_t k, bool as_one) {
  Problem result = problem;
  for (reference::RankInput& rank : result.ranks) {
    for (std::size_t i = 0; i < rank.router_weights.size(); ++i) {
      const bool chosen = static_cast<std::int64_t>(i) % problem.topk == k;
      if (!chosen || as_one) rank.router_weights[i] = chosen ? 1.0 : 0.0;
    }
  }
  return result;
}

Problem without_routes(const Problem& problem) {
  Problem result = problem;
  for (reference::RankInput& rank : result.ranks) rank.topk_experts.assign(rank.topk_experts.size(), -1);
  return result;
}

/// Ids or router weights of all ranks, one after the other.
template <class T, class Values>
std::vector<T> all_ranks(const Problem& problem, Values values) {
  std::vector<T> result;
  for (const reference::RankInput& rank : problem.ranks) {
    for (const auto value : rank.*values) result.push_back(static_cast<T>(value));
  }
  return result;
}

class SlotSums : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(SharedIntermediate, SlotSums, ::testing::Values(0, 128));

TEST_P(SlotSums, OfTheOutputRunOverKAscendingFromTheRoundedSharedOutput) {
  const Problem problem = slots_problem(GetParam());
  // With the shared expert's output in the way a slot alone cannot be read, so slots are read without it.
  Problem routed_only = problem;
  routed_only.shared_intermediate = 0;
  std::vector<std::vector<float>> slots;
  for (std::int64_t k = 0; k < problem.topk; ++k) {
    slots.push_back(run_layer(only_choice(routed_only, k, true), any_routing()).out);
  }
  const std::vector<float> shared = run_layer(without_routes(problem), any_routing()).out;
  const auto ids = all_ranks<std::int32_t>(problem, &reference::RankInput::topk_experts);
  const auto weights = all_ranks<float>(problem, &reference::RankInput::router_weights);
  std::vector<float> expected;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const std::size_t first = i / static_cast<std::size_t>(problem.hidden) * slots.size();
    float sum = shared[i];
    for (std::size_t k = 0; k < slots.size(); ++k) {
      if (ids[first + k] >= 0) sum = std::fma(weights[first + k], slots[k][i], sum);
    }
    expected.push_back(rounded(sum));
  }
  EXPECT_EQ("", first_difference(expected, run_layer(problem, any_routing()).out));
}

TEST_P(SlotSums, OfTheGradientOfXRunOverKAscendingFromTheRoundedSharedGradient) {
  const Problem problem = slots_problem(GetParam());
  Problem routed_only = problem;
  routed_only.shared_intermediate = 0;
  std::vector<std::vector<float>> slots;
  for (std::int64_t k = 0; k < problem.topk; ++k) {
    slots.push_back(run_layer(only_choice(routed_only, k, false), any_routing()).d_x);
  }
  const std::vector<float> shared = run_layer(without_routes(problem), any_routing()).d_x;
  const auto ids = all_ranks<std::int32_t>(problem, &reference::RankInput::topk_experts);
  std::vector<float> expected;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const std::size_t first = i / static_cast<std::size_t>(problem.hidden) * slots.size();
    float sum = shared[i];
    for (std::size_t k = 0; k < slots.size(); ++k) {
      if (ids[first + k] >= 0) sum += slots[k][i];
    }
    expected.push_back(rounded(sum));
  }
  EXPECT_EQ("", first_difference(expected, run_layer(problem, any_routing()).d_x));
}

/// K = 1 and Wd = 1 (H = I): out = Hd where the router weight is 1, and dHraw = dO.
Problem transparent_problem(std::vector<std::int64_t> tokens_per_rank) {
  reference::ProblemOptions options = shape(0, 320, 320, 4, 1, 1);
  options.tokens_per_rank = std::move(tokens_per_rank);
  options.router_weights = reference::RouterWeights::signed_normal;
  options.routing = reference::Routing::skewed;
  Problem problem = reference::random_problem(options);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(problem.down.size()); ++i) {
    problem.down[static_cast<std::size_t>(i)] = i % 320 == i / 320 % 320 ? 1.0 : 0.0;
  }
  return problem;
}

std::vector<float> hidden_of(const Problem& problem) {
  return run_layer(only_choice(problem, 0, true), any_routing()).out;
}

// d_w = sum of dHraw * Hd: an fma chain over each 64 columns, and the five partials added, all ascending.
TEST(RouterWeightGradients, AreSumsOfPartialsOf64ColumnsAscending) {
  const Problem problem = transparent_problem({90, 70});
  const std::vector<float> hidden = hidden_of(problem);
  const auto grad_output = all_ranks<float>(problem, &reference::RankInput::grad_output);
  const auto cols = static_cast<std::size_t>(problem.intermediate);
  std::vector<float> expected;
  for (std::size_t row = 0; row < hidden.size() / cols; ++row) {
    float sum = 0.0f;
    for (std::size_t begin = 0; begin < cols; begin += 64) {
      float partial = 0.0f;
      for (std::size_t c = begin; c < begin + 64; ++c) {
        partial = std::fma(grad_output[row * cols + c], hidden[row * cols + c], partial);
      }
      sum += partial;
    }
    expected.push_back(sum);
  }
  EXPECT_EQ("", first_difference(expected, run_layer(problem, any_routing()).d_router_weights));
}

/// dWd of an expert, accumulated through the tile GEMM over its rows in the order (source rank, token, k), 64
/// at a time, the accumulator in f32 from the first row to the last.
std::vector<float> down_gradient(const Problem& problem, const std::vector<float>& hidden,
                                 std::int32_t expert) {
  const auto width = static_cast<std::size_t>(problem.hidden);
  const auto ids = all_ranks<std::int32_t>(problem, &reference::RankInput::topk_experts);
  const auto weights = all_ranks<float>(problem, &reference::RankInput::router_weights);
  const auto grad_output = all_ranks<float>(problem, &reference::RankInput::grad_output);
  std::vector<std::size_t> rows;  // tokens of all ranks stand in rank order
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] == expert) rows.push_back(t);
  }
  std::vector<float> result(width * width);
  const auto buffer = std::make_unique<cpu::TileBuffer>();
  constexpr auto kTile = static_cast<std::size_t>(cpu::kTile);
  constexpr auto kStep = static_cast<std::size_t>(cpu::kStep);
  for (std::size_t row0 = 0; row0 < width; row0 += kTile) {
    for (std::size_t col0 = 0; col0 < width; col0 += kTile) {
      buffer->clear(0);
      for (std::size_t first = 0; first < rows.size(); first += kStep) {
        std::fill(std::begin(buffer->a), std::end(buffer->a), 0.0f);
        std::fill(std::begin(buffer->b), std::end(buffer->b), 0.0f);
        for (std::size_t r = first; r < std::min(rows.size(), first + kStep); ++r) {
          const std::size_t at = rows[r] * width;
          for (std::size_t c = 0; c < kTile; ++c) {
            if (row0 + c < width) buffer->a[(r - first) * kTile + c] = grad_output[at + row0 + c];
            if (col0 + c < width)
              buffer->b[(r - first) * kTile + c] = rounded(weights[rows[r]] * hidden[at + col0 + c]);
          }
        }
        cpu::tile_gemm(buffer->acc[0], buffer->a, cpu::Layout::step_by_rows, buffer->b,
                       cpu::Layout::step_by_rows);
      }
      for (std::size_t i = row0; i < std::min(width, row0 + kTile); ++i) {
        for (std::size_t j = col0; j < std::min(width, col0 + kTile); ++j) {
          result[i * width + j] = buffer->acc[0][(i - row0) * kTile + (j - col0)];
        }
      }
    }
  }
  return result;
}

// The rows of expert 0 come from both ranks, fill several tiles and are cut by macrobatches of 128 rows.
TEST(WeightGradients, AreSumsOverSourceRankThenTokenInOneFloat32Accumulator) {
  const Problem problem = transparent_problem({170, 190});
  const std::vector<float> hidden = hidden_of(problem);
  for (const std::int64_t macrobatch : {131072, 256, 128}) {
    if (small_tests() && macrobatch != 128) continue;
    RunOptions options = any_routing(macrobatch);
    const LayerRun fresh = run_layer(problem, options);
    options.main_grad = true;
    const LayerRun accumulated = run_layer(problem, options);
    const auto elements = static_cast<std::ptrdiff_t>(problem.hidden * problem.intermediate);
    for (std::int32_t expert = 0; expert < 4; ++expert) {
      std::vector<float> expected = down_gradient(problem, hidden, expert);
      const auto mine = [&](const std::vector<float>& all) {
        return std::vector<float>(all.begin() + expert * elements, all.begin() + (expert + 1) * elements);
      };
      EXPECT_EQ("", first_difference(expected, mine(accumulated.d_down)))
          << "main_grad of expert " << expert << ", macrobatch " << macrobatch;
      for (float& value : expected) value = rounded(value);
      EXPECT_EQ("", first_difference(expected, mine(fresh.d_down)))
          << "expert " << expert << ", macrobatch " << macrobatch;
    }
  }
}

/// The same without the tile GEMM: rows of very different size, one per 64 rows, where only the documented
/// order leaves what it leaves. Rows (rank 0: 2^24, rank 1: 1, rank 1: -2^24) give 0; any other order of the
/// last two or of the ranks gives 1 or the like.
TEST(WeightGradients, TakeTheRowsOfRank0First) {
  Problem problem = transparent_problem({64, 128});
  for (reference::RankInput& rank : problem.ranks) {
    for (std::int32_t& id : rank.topk_experts) id = 2;
    for (double& value : rank.grad_output) value = 0.0;
    for (double& weight : rank.router_weights) weight = 1.0;
  }
  // The tokens are the same everywhere, so Hd is too, and dWd is Hd times a sum of dO in row order.
  for (reference::RankInput& rank : problem.ranks) {
    for (std::size_t i = 0; i < rank.x.size(); ++i) rank.x[i] = problem.ranks[0].x[i % 320];
  }
  problem.ranks[0].grad_output[0] = 0x1p24;          // row 0
  problem.ranks[1].grad_output[0] = 1.0;             // row 64
  problem.ranks[1].grad_output[64 * 320] = -0x1p24;  // row 128
  RunOptions options = any_routing(128);
  options.main_grad = true;
  const std::vector<float> gradient = run_layer(problem, options).d_down;
  const std::vector<float> hidden = hidden_of(problem);
  const std::size_t expert = 2u * 320u * 320u;
  for (std::size_t i = 0; i < 320; ++i) {
    const float big = 0x1p24f * hidden[i];
    ASSERT_EQ((big + hidden[i]) - big, gradient[expert + i]) << "column " << i;
  }
}

}  // namespace
}  // namespace mok::testing
