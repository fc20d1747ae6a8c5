// SPDX-License-Identifier: Apache-2.0
#include "mok/layer_run.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include <mok/layer.h>
#include <mok/workspace.h>

namespace mok::tool {

namespace {

using Bf16 = std::vector<bfloat16>;

/// The problem's numbers are bf16 already, so nothing is rounded here.
Bf16 narrow(const std::vector<double>& values) {
  Bf16 result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double value) { return to_bfloat16(static_cast<float>(value)); });
  return result;
}

std::vector<float> widen(const Bf16& values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](bfloat16 value) { return to_float(value); });
  return result;
}

Bf16 poisoned(std::int64_t size) {
  return Bf16(static_cast<std::size_t>(size), to_bfloat16(std::numeric_limits<float>::quiet_NaN()));
}

/// A tensor of each kind of weight.
struct Weights {
  Bf16 gate, up, down;
};

/// What one rank brings and gets.
struct RankBuffers {
  Bf16 x, grad_output, out, d_x;
  std::vector<float> router_weights, d_router_weights;
  Weights d_shared;
};

class LayerRun {
 public:
  LayerRun(const reference::Problem& problem, const Config& config)
      : problem_(problem),
        routed_{narrow(problem.gate), narrow(problem.up), narrow(problem.down)},
        shared_{narrow(problem.shared_gate), narrow(problem.shared_up), narrow(problem.shared_down)},
        d_routed_{poisoned(routed_size()), poisoned(routed_size()), poisoned(routed_size())},
        workspace_(config, options()) {
    for (const reference::RankInput& input : problem.ranks) {
      const std::int64_t shared_size = problem.shared_intermediate * problem.hidden;
      RankBuffers rank;
      rank.x = narrow(input.x);
      rank.grad_output = narrow(input.grad_output);
      rank.out = poisoned(input.tokens * problem.hidden);
      rank.d_x = poisoned(input.tokens * problem.hidden);
      rank.router_weights.assign(input.router_weights.begin(), input.router_weights.end());
      rank.d_router_weights.assign(input.router_weights.size(), std::numeric_limits<float>::quiet_NaN());
      rank.d_shared = {poisoned(shared_size), poisoned(shared_size), poisoned(shared_size)};
      ranks_.push_back(std::move(rank));
    }
  }

  void run(bool staged) {
    std::vector<ConstTensorView> topk_experts;
    for (const reference::RankInput& input : problem_.ranks) {
      topk_experts.emplace_back(input.topk_experts.data(),
                                std::initializer_list<std::int64_t>{input.tokens, problem_.topk});
    }
    PassOptions options;
    options.staged = staged;
    const Schedule schedule = build_schedule(workspace_, topk_experts, static_cast<int>(problem_.experts));
    workspace_.check();
    const ForwardContext context = mok::forward(workspace_, schedule, forward_inputs(), options);
    workspace_.check();
    mok::backward(workspace_, schedule, context, backward_inputs(), options);
    workspace_.check();
  }

  [[nodiscard]] reference::Candidate result() const {
    reference::Candidate result;
    for (const RankBuffers& rank : ranks_) {
      result.ranks.push_back({widen(rank.out), widen(rank.d_x), rank.d_router_weights,
                              widen(rank.d_shared.gate), widen(rank.d_shared.up), widen(rank.d_shared.down)});
    }
    result.d_gate = widen(d_routed_.gate);
    result.d_up = widen(d_routed_.up);
    result.d_down = widen(d_routed_.down);
    return result;
  }

 private:
  [[nodiscard]] std::int64_t routed_size() const {
    return problem_.experts * problem_.intermediate * problem_.hidden;
  }

  [[nodiscard]] WorkspaceOptions options() const {
    WorkspaceOptions options;
    options.ranks = static_cast<int>(problem_.ranks.size());
    for (const reference::RankInput& rank : problem_.ranks) {
      options.max_tokens = std::max({options.max_tokens, rank.tokens, std::int64_t{1}});
    }
    options.hidden_size = problem_.hidden;
    options.topk = static_cast<int>(problem_.topk);
    return options;
  }

  /// The three views on a rank's part of `weights`: View is {gate, up, down} of const or writable views.
  template <class View, class TensorType, class Source>
  [[nodiscard]] View routed_part(Source& weights, std::size_t rank) const {
    const std::int64_t local = problem_.experts / static_cast<std::int64_t>(problem_.ranks.size());
    const std::int64_t i = problem_.intermediate;
    const std::int64_t h = problem_.hidden;
    const std::int64_t offset = static_cast<std::int64_t>(rank) * local * i * h;
    return {TensorType(weights.gate.data() + offset, {local, i, h}),
            TensorType(weights.up.data() + offset, {local, i, h}),
            TensorType(weights.down.data() + offset, {local, h, i})};
  }

  template <class View, class TensorType, class Source>
  [[nodiscard]] View shared_part(Source& weights) const {
    const std::int64_t i = problem_.shared_intermediate;
    const std::int64_t h = problem_.hidden;
    if (i == 0) return {};
    return {TensorType(weights.gate.data(), {i, h}), TensorType(weights.up.data(), {i, h}),
            TensorType(weights.down.data(), {h, i})};
  }

  std::vector<ForwardInput> forward_inputs() {
    std::vector<ForwardInput> inputs;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankBuffers& rank = ranks_[r];
      const std::int64_t tokens = problem_.ranks[r].tokens;
      inputs.push_back(
          {.x = ConstTensorView(rank.x.data(), {tokens, problem_.hidden}),
           .router_weights = ConstTensorView(rank.router_weights.data(), {tokens, problem_.topk}),
           .routed = routed_part<ExpertWeights, ConstTensorView>(routed_, r),
           .shared = shared_part<ExpertWeights, ConstTensorView>(shared_),
           .out = TensorView(rank.out.data(), {tokens, problem_.hidden})});
    }
    return inputs;
  }

  std::vector<BackwardInput> backward_inputs() {
    std::vector<BackwardInput> inputs;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankBuffers& rank = ranks_[r];
      const std::int64_t tokens = problem_.ranks[r].tokens;
      const std::int64_t hidden = problem_.hidden;
      inputs.push_back(
          {.grad_output = ConstTensorView(rank.grad_output.data(), {tokens, hidden}),
           .x = ConstTensorView(rank.x.data(), {tokens, hidden}),
           .router_weights = ConstTensorView(rank.router_weights.data(), {tokens, problem_.topk}),
           .routed = routed_part<ExpertWeights, ConstTensorView>(routed_, r),
           .shared = shared_part<ExpertWeights, ConstTensorView>(shared_),
           .d_x = TensorView(rank.d_x.data(), {tokens, hidden}),
           .d_router_weights = TensorView(rank.d_router_weights.data(), {tokens, problem_.topk}),
           .d_routed = routed_part<WeightGradients, TensorView>(d_routed_, r),
           .d_shared = shared_part<WeightGradients, TensorView>(rank.d_shared)});
    }
    return inputs;
  }

  const reference::Problem& problem_;
  Weights routed_, shared_, d_routed_;
  Workspace workspace_;
  std::vector<RankBuffers> ranks_;
};

}  // namespace

reference::Candidate run_layer(const reference::Problem& problem, const Config& config, bool staged) {
  LayerRun run(problem, config);
  run.run(staged);
  return run.result();
}

double check_bytes(const LayerSizes& shape) {
  const auto of = [](std::int64_t number) { return static_cast<double>(number); };
  const double hidden = of(shape.hidden);
  const double in_all = of(shape.tokens) * of(shape.ranks);
  // A weight and its gradients: float64 in the problem and in two results, float32 in the candidate, bf16
  // twice in the run. Shared gradients are per rank.
  const double routed = 3 * of(shape.experts) * of(shape.intermediate) * hidden * 32;
  const double shared = 3 * of(shape.shared_intermediate) * hidden * (10 + 22 * of(shape.ranks));
  // x, dO, out and d_x likewise, and what the reference keeps of each route while it runs.
  const double tokens = in_all * hidden * 4 * 32;
  const double routes =
      in_all * (of(shape.topk) * (hidden + 4 * of(shape.intermediate)) + 4 * of(shape.shared_intermediate)) *
      8;
  return routed + shared + tokens + routes;
}

}  // namespace mok::tool
