// SPDX-License-Identifier: Apache-2.0
// Seeded problems for the tests. The same seed gives the same bits on every machine: the distributions are
// made of exact integer arithmetic and correctly rounded operations only, not of the standard library's
// distributions.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reference/moe_reference.h"

namespace mok::reference {

enum class Routing {
  uniform,     ///< K distinct experts, all equally likely
  skewed,      ///< K distinct experts, expert e drawn in proportion to 1/(e+1)
  one_expert,  ///< every route of every token goes to `hot_expert`
};

enum class RouterWeights {
  normalised,     ///< positive, summing to one over a token's K routes, as a softmax gives them
  signed_normal,  ///< N(0, 1): half of them negative
};

/// A limit that cuts off about a quarter of the gates and half of the ups of a default problem.
inline constexpr double kBitingLimit = 0.75;

struct ProblemOptions {
  std::uint64_t seed = 1;
  std::int64_t hidden = 64;
  std::int64_t intermediate = 64;
  std::int64_t shared_intermediate = 0;
  std::int64_t experts = 4;
  std::int64_t topk = 2;
  std::vector<std::int64_t> tokens_per_rank = {64};  ///< one entry per rank, 0 allowed

  Routing routing = Routing::uniform;
  std::int64_t hot_expert = 0;    ///< for Routing::one_expert
  double dropped_fraction = 0.0;  ///< share of the routes that become -1

  RouterWeights router_weights = RouterWeights::normalised;
  double zero_weight_fraction = 0.0;  ///< share of the router weights that become exactly 0

  std::optional<double> swiglu_limit;
  /// Puts every gate (G before rounding) into this range, so that the tail of SiLU decides the result; a
  /// range narrower than 3 is missed by up to 1.5. It costs column 0 of x, which becomes 1 and carries the
  /// offset.
  std::optional<std::pair<double, double>> gate_range;
};

/// SiLU's tail, where a sigmoid with an absolute instead of a relative error has no correct digit.
inline constexpr std::pair<double, double> kGateTail = {-20.0, -5.0};

/// x and dO are N(0, 1), weights N(0, 1) / sqrt(fan-in), all rounded to bf16; router weights are rounded to
/// float. Tokens are drawn one after the other over all ranks, so how they are split over ranks does not
/// change them. Throws std::invalid_argument when topk exceeds experts (unless all routes share one expert)
/// or an option is out of its range.
Problem random_problem(const ProblemOptions& options);

}  // namespace mok::reference
