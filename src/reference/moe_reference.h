// SPDX-License-Identifier: Apache-2.0
// The MoE layer in float64: what every backend is measured against.
//
// Plain dense loops over global weights: no sharding, no tiles, no schedule, and no code shared with the rest
// of the project, so that a mistake there cannot be repeated here. The formulas and their rounding points are
// those of "design: the mathematics".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mok::reference {

/// What one rank brings: T tokens, of its own number.
struct RankInput {
  std::int64_t tokens = 0;                 ///< T, may be 0
  std::vector<double> x;                   ///< [T, H]
  std::vector<std::int32_t> topk_experts;  ///< [T, K], global expert ids, -1 = dropped route
  std::vector<double> router_weights;      ///< [T, K]
  std::vector<double> grad_output;         ///< [T, H], only read by the backward pass
};

/// One step of the layer over all ranks. Routed weights are those of all E experts.
struct Problem {
  std::int64_t hidden = 0;               ///< H
  std::int64_t intermediate = 0;         ///< I
  std::int64_t shared_intermediate = 0;  ///< Is, 0 = no shared expert
  std::int64_t experts = 0;              ///< E
  std::int64_t topk = 0;                 ///< K
  std::optional<double> swiglu_limit;    ///< L

  std::vector<double> gate;         ///< [E, I, H]
  std::vector<double> up;           ///< [E, I, H]
  std::vector<double> down;         ///< [E, H, I]
  std::vector<double> shared_gate;  ///< [Is, H], the same on every rank
  std::vector<double> shared_up;    ///< [Is, H]
  std::vector<double> shared_down;  ///< [H, Is]

  std::vector<RankInput> ranks;  ///< R of them
};

/// The outputs that belong to one rank. Shared weight gradients are sums over this rank's tokens only.
template <class T>
struct BasicRankResult {
  std::vector<T> out;               ///< [T, H]
  std::vector<T> d_x;               ///< [T, H]
  std::vector<T> d_router_weights;  ///< [T, K], 0 for a dropped route
  std::vector<T> d_shared_gate;     ///< [Is, H]
  std::vector<T> d_shared_up;       ///< [Is, H]
  std::vector<T> d_shared_down;     ///< [H, Is]
};

/// All outputs of a step. After a forward-only evaluation every gradient is empty.
template <class T>
struct BasicResult {
  std::vector<BasicRankResult<T>> ranks;
  std::vector<T> d_gate;  ///< [E, I, H], exact zeros for an expert with no rows
  std::vector<T> d_up;    ///< [E, I, H]
  std::vector<T> d_down;  ///< [E, H, I]
};

/// A result of this reference.
using Result = BasicResult<double>;
/// A result of the implementation under test, widened to float.
using Candidate = BasicResult<float>;

enum class Rounding {
  none,      ///< float64 throughout: the exact result
  section2,  ///< float64 arithmetic, rounded wherever the layer stores a narrower value, and nowhere else
};

/// How the layer hands out weight gradients, routed and shared.
enum class WeightGradients {
  bfloat16,   ///< rounded once at the end to bf16
  main_grad,  ///< rounded once at the end to float, as what is added to an f32 main_grad
};

struct Options {
  Rounding rounding = Rounding::none;
  WeightGradients weight_gradients = WeightGradients::bfloat16;  ///< matters with Rounding::section2 only
  int threads = 0;  ///< 0 = as many as the machine has; the result is the same for any number
};

/// The forward pass; throws std::invalid_argument when the tensors' sizes or expert ids do not fit.
Result forward(const Problem& problem, const Options& options);

/// The forward and the backward pass; throws as `forward` does.
Result evaluate(const Problem& problem, const Options& options);

/// `evaluate` with default options except the rounding.
Result evaluate(const Problem& problem, Rounding rounding);

}  // namespace mok::reference
