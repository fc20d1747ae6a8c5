// SPDX-License-Identifier: Apache-2.0
// Problems by their sizes, and how large a test may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/random_problem.h"

namespace mok::testing {

/// Whether MOK_TEST_SMALL asks for small shapes: the sanitizers' builds are many times slower.
inline bool small_tests() {
  const char* const value = std::getenv("MOK_TEST_SMALL");
  return value != nullptr && std::string_view(value) == "1";
}

/// (T, H, I, E, K, R): T tokens on each of R ranks.
inline reference::ProblemOptions shape(std::int64_t tokens, std::int64_t hidden, std::int64_t intermediate,
                                       std::int64_t experts, std::int64_t topk, std::size_t ranks) {
  reference::ProblemOptions options;
  options.hidden = hidden;
  options.intermediate = intermediate;
  options.experts = experts;
  options.topk = topk;
  options.tokens_per_rank.assign(ranks, tokens);
  return options;
}

/// Everything at once that a real step may bring: a skewed router of both signs with zeros, dropped routes, a
/// limit that bites, a shared expert of another width, ranks of different sizes. E = 8, so that R may be 1,
/// 2, 4 or 8.
inline reference::ProblemOptions mixed_problem(std::vector<std::int64_t> tokens_per_rank,
                                               std::uint64_t seed) {
  const bool small = small_tests();
  reference::ProblemOptions options = shape(0, small ? 64 : 128, small ? 128 : 192, 8, 3, 1);
  options.seed = seed;
  options.shared_intermediate = 64;
  options.tokens_per_rank = std::move(tokens_per_rank);
  options.routing = reference::Routing::skewed;
  options.dropped_fraction = 0.1;
  options.router_weights = reference::RouterWeights::signed_normal;
  options.zero_weight_fraction = 0.05;
  options.swiglu_limit = reference::kBitingLimit;
  return options;
}

}  // namespace mok::testing
