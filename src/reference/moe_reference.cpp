// SPDX-License-Identifier: Apache-2.0
#include "reference/moe_reference.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "reference/expert_reference.h"
#include "reference/matrix.h"

namespace mok::reference {
namespace {

// A route (t,k) of a source rank.
struct Route {
  std::size_t rank;
  std::int64_t token;
  std::int64_t slot;  // t*K + k
};

// The expert's rows in global route order: source rank, token, k.
std::vector<Route> routes_of(const Problem& problem, std::int64_t expert) {
  std::vector<Route> routes;
  for (std::size_t rank = 0; rank < problem.ranks.size(); ++rank) {
    const std::vector<std::int32_t>& experts = problem.ranks[rank].topk_experts;
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
      if (experts[slot] != expert) continue;
      const std::int64_t signed_slot = static_cast<std::int64_t>(slot);
      routes.push_back({rank, signed_slot / problem.topk, signed_slot});
    }
  }
  return routes;
}

void require_size(std::size_t size, std::int64_t expected, const char* name) {
  if (size != static_cast<std::size_t>(expected)) {
    throw std::invalid_argument(std::string("reference: ") + name + " holds " + std::to_string(size) +
                                " values, expected " + std::to_string(expected));
  }
}

void check(const Problem& problem, bool with_backward) {
  const std::int64_t hidden = problem.hidden;
  const std::int64_t routed = problem.experts * problem.intermediate * hidden;
  const std::int64_t shared = problem.shared_intermediate * hidden;
  require_size(problem.gate.size(), routed, "gate");
  require_size(problem.up.size(), routed, "up");
  require_size(problem.down.size(), routed, "down");
  require_size(problem.shared_gate.size(), shared, "shared_gate");
  require_size(problem.shared_up.size(), shared, "shared_up");
  require_size(problem.shared_down.size(), shared, "shared_down");
  for (const RankInput& input : problem.ranks) {
    require_size(input.x.size(), input.tokens * hidden, "x");
    require_size(input.topk_experts.size(), input.tokens * problem.topk, "topk_experts");
    require_size(input.router_weights.size(), input.tokens * problem.topk, "router_weights");
    if (with_backward) require_size(input.grad_output.size(), input.tokens * hidden, "grad_output");
    for (const std::int32_t expert : input.topk_experts) {
      if (expert < -1 || expert >= problem.experts) {
        throw std::invalid_argument("reference: expert id " + std::to_string(expert) + " is out of range");
      }
    }
  }
}

// One evaluation: expert results are written to the slots of their source ranks, then summed per token.
class Evaluation {
 public:
  Evaluation(const Problem& problem, const Options& options, bool with_backward)
      : problem_(problem),
        arithmetic_{problem.swiglu_limit, Rounder{options.rounding == Rounding::section2}, options.threads},
        weight_gradients_(options.weight_gradients),
        with_backward_(with_backward) {
    check(problem, with_backward);
  }

  Result run() {
    prepare();
    for (std::size_t rank = 0; rank < problem_.ranks.size(); ++rank) shared_expert(rank);
    for (std::int64_t expert = 0; expert < problem_.experts; ++expert) routed_expert(expert);
    for (std::size_t rank = 0; rank < problem_.ranks.size(); ++rank) combine(rank);
    return std::move(result_);
  }

 private:
  // The unweighted results of a rank's own routes, and of its shared expert.
  struct Slots {
    Matrix y, d_x;                // [T*K, H]; the slot of a dropped route is never read
    Matrix y_shared, d_x_shared;  // [T, H], zeros without a shared expert
  };

  void prepare() {
    const std::size_t routed = problem_.gate.size();
    result_.ranks.resize(problem_.ranks.size());
    for (const RankInput& input : problem_.ranks) {
      const std::int64_t backward_tokens = with_backward_ ? input.tokens : 0;
      slots_.push_back({Matrix(input.tokens * problem_.topk, problem_.hidden),
                        Matrix(backward_tokens * problem_.topk, problem_.hidden),
                        Matrix(input.tokens, problem_.hidden), Matrix(backward_tokens, problem_.hidden)});
    }
    if (!with_backward_) return;
    for (std::size_t rank = 0; rank < problem_.ranks.size(); ++rank) {
      result_.ranks[rank].d_router_weights.assign(problem_.ranks[rank].router_weights.size(), 0.0);
    }
    result_.d_gate.assign(routed, 0.0);
    result_.d_up.assign(routed, 0.0);
    result_.d_down.assign(routed, 0.0);
  }

  // The shared expert is an expert that every token takes with weight 1.
  void shared_expert(std::size_t rank) {
    if (problem_.shared_intermediate == 0) return;
    const RankInput& input = problem_.ranks[rank];
    const Expert expert = expert_at(problem_.shared_gate, problem_.shared_up, problem_.shared_down, 0,
                                    problem_.shared_intermediate);
    const Matrix x(input.tokens, problem_.hidden, input.x.data());
    Activations act = expert_forward(x, expert, arithmetic_);
    if (with_backward_) {
      const Matrix d_out(input.tokens, problem_.hidden, input.grad_output.data());
      const std::vector<double> ones(static_cast<std::size_t>(input.tokens), 1.0);
      Gradients grad = expert_backward(x, d_out, ones, expert, act, arithmetic_);
      slots_[rank].d_x_shared = std::move(grad.d_x);
      result_.ranks[rank].d_shared_gate = rounded_weight_gradient(std::move(grad.d_gate));
      result_.ranks[rank].d_shared_up = rounded_weight_gradient(std::move(grad.d_up));
      result_.ranks[rank].d_shared_down = rounded_weight_gradient(std::move(grad.d_down));
    }
    slots_[rank].y_shared = std::move(act.y);
  }

  void routed_expert(std::int64_t index) {
    const std::vector<Route> routes = routes_of(problem_, index);
    if (routes.empty()) return;
    const Expert expert = expert_at(problem_.gate, problem_.up, problem_.down, index, problem_.intermediate);
    const Matrix x = gathered(routes, &RankInput::x);
    const Activations act = expert_forward(x, expert, arithmetic_);
    for (std::size_t r = 0; r < routes.size(); ++r) {
      const double* row = act.y.row(static_cast<std::int64_t>(r));
      std::copy(row, row + problem_.hidden, slots_[routes[r].rank].y.row(routes[r].slot));
    }
    if (with_backward_) routed_backward(index, routes, expert, x, act);
  }

  void routed_backward(std::int64_t index, const std::vector<Route>& routes, const Expert& expert,
                       const Matrix& x, const Activations& act) {
    const Matrix d_out = gathered(routes, &RankInput::grad_output);
    std::vector<double> weights;
    weights.reserve(routes.size());
    for (const auto& [rank, token, slot] : routes) {
      weights.push_back(problem_.ranks[rank].router_weights[static_cast<std::size_t>(slot)]);
    }
    Gradients grad = expert_backward(x, d_out, weights, expert, act, arithmetic_);
    for (std::size_t r = 0; r < routes.size(); ++r) {
      const double* row = grad.d_x.row(static_cast<std::int64_t>(r));
      std::copy(row, row + problem_.hidden, slots_[routes[r].rank].d_x.row(routes[r].slot));
      result_.ranks[routes[r].rank].d_router_weights[static_cast<std::size_t>(routes[r].slot)] =
          grad.d_router_weights[r];
    }
    store(rounded_weight_gradient(std::move(grad.d_gate)), index, result_.d_gate);
    store(rounded_weight_gradient(std::move(grad.d_up)), index, result_.d_up);
    store(rounded_weight_gradient(std::move(grad.d_down)), index, result_.d_down);
  }

  // out[t] = y_shared[t] + sum over k of w[t,k] y[t,k];  d_x[t] = d_x_shared[t] + sum over k of
  // dx_route[t,k]. A dropped route is left out, not multiplied by zero.
  void combine(std::size_t rank) {
    const RankInput& input = problem_.ranks[rank];
    Slots& slots = slots_[rank];
    for (std::int64_t token = 0; token < input.tokens; ++token) {
      for (std::int64_t slot = token * problem_.topk; slot < (token + 1) * problem_.topk; ++slot) {
        if (input.topk_experts[static_cast<std::size_t>(slot)] < 0) continue;
        const double weight = input.router_weights[static_cast<std::size_t>(slot)];
        double* out = slots.y_shared.row(token);
        for (std::int64_t h = 0; h < problem_.hidden; ++h) out[h] += weight * slots.y.row(slot)[h];
        if (!with_backward_) continue;
        double* d_x = slots.d_x_shared.row(token);
        for (std::int64_t h = 0; h < problem_.hidden; ++h) d_x[h] += slots.d_x.row(slot)[h];
      }
    }
    result_.ranks[rank].out = arithmetic_.round.bf16(std::move(slots.y_shared)).values;
    if (with_backward_) result_.ranks[rank].d_x = arithmetic_.round.bf16(std::move(slots.d_x_shared)).values;
  }

  Expert expert_at(const std::vector<double>& gate, const std::vector<double>& up,
                   const std::vector<double>& down, std::int64_t index, std::int64_t intermediate) const {
    const std::int64_t offset = index * intermediate * problem_.hidden;
    return {Matrix(intermediate, problem_.hidden, gate.data() + offset),
            Matrix(intermediate, problem_.hidden, up.data() + offset),
            Matrix(problem_.hidden, intermediate, down.data() + offset)};
  }

  Matrix gathered(const std::vector<Route>& routes, std::vector<double> RankInput::*field) const {
    Matrix rows(static_cast<std::int64_t>(routes.size()), problem_.hidden);
    for (std::size_t r = 0; r < routes.size(); ++r) {
      const double* token =
          (problem_.ranks[routes[r].rank].*field).data() + routes[r].token * problem_.hidden;
      std::copy(token, token + problem_.hidden, rows.row(static_cast<std::int64_t>(r)));
    }
    return rows;
  }

  std::vector<double> rounded_weight_gradient(Matrix gradient) const {
    const bool keep_float = weight_gradients_ == WeightGradients::main_grad;
    for (double& value : gradient.values) {
      value = keep_float ? arithmetic_.round.f32(value) : arithmetic_.round.bf16(value);
    }
    return std::move(gradient.values);
  }

  static void store(const std::vector<double>& gradient, std::int64_t expert, std::vector<double>& all) {
    std::copy(gradient.begin(), gradient.end(),
              all.data() + expert * static_cast<std::int64_t>(gradient.size()));
  }

  const Problem& problem_;
  Arithmetic arithmetic_;
  WeightGradients weight_gradients_;
  bool with_backward_;
  std::vector<Slots> slots_;
  Result result_;
};

}  // namespace

Result forward(const Problem& problem, const Options& options) {
  return Evaluation(problem, options, false).run();
}

Result evaluate(const Problem& problem, const Options& options) {
  return Evaluation(problem, options, true).run();
}

Result evaluate(const Problem& problem, Rounding rounding) {
  Options options;
  options.rounding = rounding;
  return evaluate(problem, options);
}

}  // namespace mok::reference
