// SPDX-License-Identifier: Apache-2.0
#include "reference/random_problem.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>

#include "reference/rounding.h"

namespace mok::reference {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(uniform() * static_cast<double>(count));
  }

  // The sum of twelve uniform numbers of 16 bits has variance 1 and is normal to within what a test can
  // notice (its tails end at 6). Unlike the usual ways it calls no logarithm or cosine, whose last bits
  // differ between libraries.
  double normal() {
    std::uint64_t sum = 0;
    for (int draw = 0; draw < 3; ++draw) {
      const std::uint64_t bits = engine_();
      sum += (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
    }
    return (static_cast<double>(sum) + 6.0) * 0x1p-16 -
           6.0;  // each of the twelve is half a step below its middle
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<double> normal_tensor(Random& random, std::int64_t size, double scale) {
  std::vector<double> values(static_cast<std::size_t>(size));
  for (double& value : values) value = round_to_bfloat16(random.normal() * scale);
  return values;
}

// With x[:,0] = 1, column 0 of the gate weight is an offset of G. The other columns are scaled down, so that
// the offset alone decides where in the range a gate lies.
void offset_gates(Random& random, const ProblemOptions& options, std::vector<double>& gate) {
  constexpr double kSpread = 0.25;
  constexpr double kMargin = 1.5;  // six times the spread
  const auto [low, high] = *options.gate_range;
  const double middle = (low + high) / 2;
  const std::size_t hidden = static_cast<std::size_t>(options.hidden);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const bool narrow = high - low <= 2 * kMargin;
    gate[i] = i % hidden != 0
                  ? round_to_bfloat16(gate[i] * kSpread)
                  : round_to_bfloat16(narrow ? middle : random.uniform(low + kMargin, high - kMargin));
  }
}

// K experts of one token, before any is dropped.
std::vector<std::int32_t> draw_experts(Random& random, const ProblemOptions& options) {
  std::vector<std::int32_t> chosen;
  if (options.routing == Routing::one_expert) {
    chosen.assign(static_cast<std::size_t>(options.topk), static_cast<std::int32_t>(options.hot_expert));
    return chosen;
  }
  std::vector<std::int32_t> left;
  for (std::int64_t e = 0; e < options.experts; ++e) left.push_back(static_cast<std::int32_t>(e));
  for (std::int64_t k = 0; k < options.topk; ++k) {
    std::int64_t pick = 0;
    if (options.routing == Routing::uniform) {
      pick = random.below(static_cast<std::int64_t>(left.size()));
    } else {
      double total = 0.0;
      for (const std::int32_t e : left) total += 1.0 / (1.0 + e);
      double mark = random.uniform() * total;
      const std::int64_t last = static_cast<std::int64_t>(left.size()) - 1;
      for (; pick < last; ++pick) {
        mark -= 1.0 / (1.0 + left[static_cast<std::size_t>(pick)]);
        if (mark < 0.0) break;
      }
    }
    chosen.push_back(left[static_cast<std::size_t>(pick)]);
    left.erase(left.begin() + pick);
  }
  return chosen;
}

std::vector<double> draw_router_weights(Random& random, const ProblemOptions& options) {
  std::vector<double> weights(static_cast<std::size_t>(options.topk));
  double sum = 0.0;
  for (double& weight : weights) {
    const bool is_signed = options.router_weights == RouterWeights::signed_normal;
    weight = is_signed ? random.normal() : random.uniform(0.125, 1.0);
    sum += weight;
  }
  for (double& weight : weights) {
    if (options.router_weights == RouterWeights::normalised) weight /= sum;
    weight = round_to_float(weight);
    if (random.uniform() < options.zero_weight_fraction) weight = 0.0;
  }
  return weights;
}

RankInput draw_rank(Random& random, const ProblemOptions& options, std::int64_t tokens) {
  RankInput input;
  input.tokens = tokens;
  for (std::int64_t token = 0; token < tokens; ++token) {
    std::vector<double> x = normal_tensor(random, options.hidden, 1.0);
    if (options.gate_range) x[0] = 1.0;
    std::vector<std::int32_t> experts = draw_experts(random, options);
    for (std::int32_t& expert : experts) {
      if (random.uniform() < options.dropped_fraction) expert = -1;
    }
    const std::vector<double> weights = draw_router_weights(random, options);
    const std::vector<double> grad_output = normal_tensor(random, options.hidden, 1.0);
    input.x.insert(input.x.end(), x.begin(), x.end());
    input.topk_experts.insert(input.topk_experts.end(), experts.begin(), experts.end());
    input.router_weights.insert(input.router_weights.end(), weights.begin(), weights.end());
    input.grad_output.insert(input.grad_output.end(), grad_output.begin(), grad_output.end());
  }
  return input;
}

void check(const ProblemOptions& options) {
  const bool one_expert = options.routing == Routing::one_expert;
  if (options.hidden < 1 || options.intermediate < 1 || options.experts < 1 || options.topk < 1) {
    throw std::invalid_argument("random_problem: sizes must be positive");
  }
  if (!one_expert && options.topk > options.experts) {
    throw std::invalid_argument("random_problem: topk distinct experts do not exist");
  }
  if (one_expert && (options.hot_expert < 0 || options.hot_expert >= options.experts)) {
    throw std::invalid_argument("random_problem: hot_expert is out of range");
  }
}

}  // namespace

Problem random_problem(const ProblemOptions& options) {
  check(options);
  Random random(options.seed);
  Problem problem;
  problem.hidden = options.hidden;
  problem.intermediate = options.intermediate;
  problem.shared_intermediate = options.shared_intermediate;
  problem.experts = options.experts;
  problem.topk = options.topk;
  problem.swiglu_limit = options.swiglu_limit;

  const auto inverse_root = [](std::int64_t fan_in) { return 1.0 / std::sqrt(static_cast<double>(fan_in)); };
  const std::int64_t routed = options.experts * options.intermediate * options.hidden;
  const std::int64_t shared = options.shared_intermediate * options.hidden;
  problem.gate = normal_tensor(random, routed, inverse_root(options.hidden));
  problem.up = normal_tensor(random, routed, inverse_root(options.hidden));
  problem.down = normal_tensor(random, routed, inverse_root(options.intermediate));
  problem.shared_gate = normal_tensor(random, shared, inverse_root(options.hidden));
  problem.shared_up = normal_tensor(random, shared, inverse_root(options.hidden));
  if (shared > 0)
    problem.shared_down = normal_tensor(random, shared, inverse_root(options.shared_intermediate));
  if (options.gate_range) {
    offset_gates(random, options, problem.gate);
    offset_gates(random, options, problem.shared_gate);
  }
  for (const std::int64_t tokens : options.tokens_per_rank) {
    problem.ranks.push_back(draw_rank(random, options, tokens));
  }
  return problem;
}

}  // namespace mok::reference
