// SPDX-License-Identifier: Apache-2.0
// R5: the number of ranks changes no bit. The same tokens, in the same order, over 1, 2, 4 or 8 ranks give
// the same out, d_x, d_router_weights and routed weight gradients.
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

constexpr std::int64_t kTokens = 320;

const reference::Problem& on_one_rank() {
  static const reference::Problem made = reference::random_problem(mixed_problem({kTokens}, 3));
  return made;
}

RunOptions any_routing(std::int64_t minibatch = 4096, std::int64_t macrobatch = 131072) {
  RunOptions run;
  run.config.schedule_capacity_multiplier = 1.0;
  run.config.minibatch_size = minibatch;
  run.config.macrobatch_size = macrobatch;
  run.config.cpu.num_compute_workers = 1;
  return run;
}

using Split = std::vector<std::int64_t>;

std::string name_of(const ::testing::TestParamInfo<Split>& info) {
  return fmt::format("R{}T{}", info.param.size(), fmt::join(info.param, "_"));
}

class Ranks : public ::testing::TestWithParam<Split> {};

TEST_P(Ranks, ChangeNoBit) {
  static const LayerRun expected = run_layer(on_one_rank(), any_routing());
  const reference::Problem problem = split(on_one_rank(), GetParam());
  EXPECT_EQ("", differences(run_layer(problem, any_routing()), expected, false));
  // Different cuts of an expert's rows on every rank, and another precision of the gradients.
  EXPECT_EQ("", differences(run_layer(problem, any_routing(128, 256)), expected, false));
}

TEST_P(Ranks, ChangeNoBitOfMainGrad) {
  RunOptions run = any_routing(128, 128);
  run.main_grad = true;
  static const LayerRun expected = run_layer(on_one_rank(), run);
  EXPECT_EQ("", differences(run_layer(split(on_one_rank(), GetParam()), run), expected, false));
}

/// The gradients of the shared expert are sums over a rank's own tokens: what the rank would get alone.
TEST_P(Ranks, GiveSharedGradientsOfTheirOwnTokens) {
  const reference::Problem problem = split(on_one_rank(), GetParam());
  const LayerRun together = run_layer(problem, any_routing());
  for (std::size_t r = 0; r < problem.ranks.size(); ++r) {
    reference::Problem alone = problem;
    alone.ranks = {problem.ranks[r]};
    const LayerRun single = run_layer(alone, any_routing());
    const reference::BasicRankResult<float>& mine = together.candidate.ranks[r];
    EXPECT_TRUE(same_bits(mine.out, single.out)) << "out of rank " << r;
    EXPECT_TRUE(same_bits(mine.d_x, single.d_x)) << "d_x of rank " << r;
    EXPECT_TRUE(same_bits(mine.d_shared_gate, single.d_shared_gate)) << "gate of rank " << r;
    EXPECT_TRUE(same_bits(mine.d_shared_up, single.d_shared_up)) << "up of rank " << r;
    EXPECT_TRUE(same_bits(mine.d_shared_down, single.d_shared_down)) << "down of rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Even, Ranks,
                         ::testing::Values(Split{320}, Split{160, 160}, Split{80, 80, 80, 80},
                                           Split{40, 40, 40, 40, 40, 40, 40, 40}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Uneven, Ranks,
                         ::testing::Values(Split{319, 1}, Split{0, 320}, Split{0, 200, 0, 120},
                                           Split{1, 2, 3, 314}, Split{0, 0, 0, 320, 0, 0, 0, 0},
                                           Split{100, 1, 0, 128, 0, 27, 63, 1}),
                         name_of);

/// A row that leaves its rank comes back with the same bits as one that stays: all tokens on the rank that
/// owns none of their experts, and on the one that owns them all.
TEST(RanksApart, FromTheirExpertsGiveTheBitsOfRanksBesideThem) {
  reference::ProblemOptions options = mixed_problem({150, 0}, 4);
  options.routing = reference::Routing::one_expert;
  options.hot_expert = 7;
  const reference::Problem away = reference::random_problem(options);
  EXPECT_EQ("", differences(run_layer(split(away, {0, 150}), any_routing()), run_layer(away, any_routing()),
                            false));
}

}  // namespace
}  // namespace mok::testing
