// SPDX-License-Identifier: Apache-2.0
// Runs the library on a problem of the float64 reference and keeps every output's bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <mok/mok.h>

#include "reference/moe_reference.h"
#include "support/same_bits.h"

namespace mok::testing {

/// How to run the layer; none of it may change a bit of the result.
struct RunOptions {
  Config config;
  bool staged = false;
  bool main_grad = false;  ///< weight gradients into zeroed f32 buffers instead of fresh bf16
  bool recompute = false;  ///< backward from a recomputed context
  bool int64_ids = false;
  std::int64_t expert_gap = 0;    ///< extra elements between experts of routed weights and gradients
  int backward_runs = 1;          ///< from the same context
  std::int64_t extra_tokens = 0;  ///< max_tokens beyond what the ranks bring
};

/// Everything that one forward and backward write, ranks one after the other; routed gradients by global
/// expert. bf16 results as their floats; comparing bits of these compares bits of those.
struct LayerRun {
  std::vector<float> out, d_x, d_router_weights, d_gate, d_up, d_down, d_shared_gate, d_shared_up,
      d_shared_down;
  reference::Candidate candidate;  ///< the same, as the bound wants it
};

inline std::vector<bfloat16> to_bf16(const std::vector<double>& values) {
  std::vector<bfloat16> result;
  result.reserve(values.size());
  for (const double value : values) result.push_back(to_bfloat16(static_cast<float>(value)));
  return result;
}

/// Weights of all experts at a distance of `stride` elements, the gaps filled with NaN: reading them would
/// show.
inline std::vector<bfloat16> spread_experts(const std::vector<double>& weights, std::int64_t experts,
                                            std::int64_t elements, std::int64_t stride) {
  std::vector<bfloat16> result(static_cast<std::size_t>(experts * stride),
                               to_bfloat16(std::numeric_limits<float>::quiet_NaN()));
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t n = 0; n < elements; ++n) {
      result[static_cast<std::size_t>(e * stride + n)] =
          to_bfloat16(static_cast<float>(weights[static_cast<std::size_t>(e * elements + n)]));
    }
  }
  return result;
}

inline std::vector<float> to_floats(const std::vector<bfloat16>& values) {
  std::vector<float> result;
  result.reserve(values.size());
  for (const bfloat16 value : values) result.push_back(to_float(value));
  return result;
}

/// Empty when all results that do not depend on R have the same bits, else those that differ, and where.
inline std::string differences(const LayerRun& a, const LayerRun& b, bool shared_too) {
  std::string names;
  const auto check = [&names](const char* name, const std::vector<float>& x, const std::vector<float>& y) {
    const std::string difference = first_difference(y, x);
    if (difference.empty()) return;
    if (!names.empty()) names += "; ";
    names += name;
    names += ": ";
    names += difference;
  };
  check("out", a.out, b.out);
  check("d_x", a.d_x, b.d_x);
  check("d_router_weights", a.d_router_weights, b.d_router_weights);
  check("d_gate", a.d_gate, b.d_gate);
  check("d_up", a.d_up, b.d_up);
  check("d_down", a.d_down, b.d_down);
  if (shared_too) {
    check("d_shared_gate", a.d_shared_gate, b.d_shared_gate);
    check("d_shared_up", a.d_shared_up, b.d_shared_up);
    check("d_shared_down", a.d_shared_down, b.d_shared_down);
  }
  return names;
}

/// The same tokens, in the same order, over `tokens_per_rank.size()` ranks.
inline reference::Problem split(const reference::Problem& problem,
                                const std::vector<std::int64_t>& tokens_per_rank) {
  reference::RankInput all;
  for (const reference::RankInput& rank : problem.ranks) {
    all.tokens += rank.tokens;
    all.x.insert(all.x.end(), rank.x.begin(), rank.x.end());
    all.topk_experts.insert(all.topk_experts.end(), rank.topk_experts.begin(), rank.topk_experts.end());
    all.router_weights.insert(all.router_weights.end(), rank.router_weights.begin(),
                              rank.router_weights.end());
    all.grad_output.insert(all.grad_output.end(), rank.grad_output.begin(), rank.grad_output.end());
  }
  reference::Problem result = problem;
  result.ranks.clear();
  std::int64_t begin = 0;
  const auto slice = [](const auto& from, std::int64_t first, std::int64_t last) {
    return std::decay_t<decltype(from)>(from.begin() + first, from.begin() + last);
  };
  for (const std::int64_t tokens : tokens_per_rank) {
    const std::int64_t end = begin + tokens;
    result.ranks.push_back({tokens, slice(all.x, begin * problem.hidden, end * problem.hidden),
                            slice(all.topk_experts, begin * problem.topk, end * problem.topk),
                            slice(all.router_weights, begin * problem.topk, end * problem.topk),
                            slice(all.grad_output, begin * problem.hidden, end * problem.hidden)});
    begin = end;
  }
  return result;
}

/// A problem's tensors in the library's types, with outputs that start as NaN.
class LayerHarness {
 public:
  LayerHarness(const reference::Problem& problem, const RunOptions& options)
      : problem_(problem),
        options_(options),
        ranks_(problem.ranks.size()),
        local_experts_(problem.experts / static_cast<std::int64_t>(problem.ranks.size())) {
    gate_ = spread(problem.gate);
    up_ = spread(problem.up);
    down_ = spread(problem.down);
    shared_gate_ = to_bf16(problem.shared_gate);
    shared_up_ = to_bf16(problem.shared_up);
    shared_down_ = to_bf16(problem.shared_down);
    for (const reference::RankInput& rank : problem.ranks) tensors_.push_back(make_rank(rank));
  }

  [[nodiscard]] WorkspaceOptions workspace_options() const {
    std::int64_t most = 1;
    for (const reference::RankInput& rank : problem_.ranks) most = std::max(most, rank.tokens);
    return {static_cast<int>(ranks_),
            most + options_.extra_tokens,
            problem_.hidden,
            static_cast<int>(problem_.topk),
            {}};
  }

  [[nodiscard]] Schedule schedule(Workspace& workspace) const {
    std::vector<ConstTensorView> ids;
    for (const RankTensors& rank : tensors_) {
      if (options_.int64_ids) {
        ids.emplace_back(rank.ids64.data(), std::initializer_list<std::int64_t>{rank.tokens, problem_.topk});
      } else {
        ids.emplace_back(rank.ids.data(), std::initializer_list<std::int64_t>{rank.tokens, problem_.topk});
      }
    }
    return build_schedule(workspace, ids, static_cast<int>(problem_.experts));
  }

  [[nodiscard]] PassOptions pass_options() const {
    PassOptions pass;
    pass.staged = options_.staged;
    if (problem_.swiglu_limit) pass.swiglu_limit = static_cast<float>(*problem_.swiglu_limit);
    return pass;
  }

  /// Outputs are poisoned first. Throws what the library throws.
  ForwardContext forward(Workspace& workspace, const Schedule& schedule) {
    const std::vector<ForwardInput> inputs = forward_inputs();
    return mok::forward(workspace, schedule, inputs, pass_options());
  }

  ForwardContext recompute(Workspace& workspace, const Schedule& schedule) {
    std::vector<RecomputeInput> inputs;
    for (std::size_t r = 0; r < ranks_; ++r) inputs.push_back({x(r), routed(r), shared()});
    return recompute_forward_context(workspace, schedule, inputs, pass_options());
  }

  void backward(Workspace& workspace, const Schedule& schedule, const ForwardContext& context) {
    const std::vector<BackwardInput> inputs = backward_inputs();
    mok::backward(workspace, schedule, context, inputs, pass_options());
  }

  /// The tensors of one pass, for tests that change one of them.
  std::vector<ForwardInput> forward_inputs() {
    std::vector<ForwardInput> inputs;
    for (std::size_t r = 0; r < ranks_; ++r) {
      RankTensors& rank = tensors_[r];
      poison(rank.out);
      inputs.push_back({x(r), router_weights(r), routed(r), shared(),
                        TensorView(rank.out.data(), {rank.tokens, problem_.hidden})});
    }
    return inputs;
  }

  std::vector<BackwardInput> backward_inputs() {
    std::vector<BackwardInput> inputs;
    for (std::size_t r = 0; r < ranks_; ++r) {
      RankTensors& rank = tensors_[r];
      poison(rank.d_x);
      std::fill(rank.d_router_weights.begin(), rank.d_router_weights.end(), kNaN);
      for (auto* gradient : {&rank.d_gate, &rank.d_up, &rank.d_down, &rank.d_shared_gate, &rank.d_shared_up,
                             &rank.d_shared_down}) {
        poison(gradient->fresh);
        std::fill(gradient->main.begin(), gradient->main.end(), 0.0f);
      }
      const std::int64_t h = problem_.hidden;
      const std::int64_t i = problem_.intermediate;
      const std::int64_t s = problem_.shared_intermediate;
      BackwardInput input;
      input.grad_output = ConstTensorView(rank.grad_output.data(), {rank.tokens, h});
      input.x = x(r);
      input.router_weights = router_weights(r);
      input.routed = routed(r);
      input.shared = shared();
      input.d_x = TensorView(rank.d_x.data(), {rank.tokens, h});
      input.d_router_weights = TensorView(rank.d_router_weights.data(), {rank.tokens, problem_.topk});
      input.d_routed = {routed_gradient(rank.d_gate, i, h), routed_gradient(rank.d_up, i, h),
                        routed_gradient(rank.d_down, h, i)};
      if (s > 0) {
        input.d_shared = {shared_gradient(rank.d_shared_gate, s, h), shared_gradient(rank.d_shared_up, s, h),
                          shared_gradient(rank.d_shared_down, h, s)};
      }
      inputs.push_back(input);
    }
    return inputs;
  }

  /// What the passes wrote.
  [[nodiscard]] LayerRun results() const {
    LayerRun run;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const std::int64_t elements = problem_.intermediate * problem_.hidden;
    for (const RankTensors& rank : tensors_) {
      reference::BasicRankResult<float> mine;
      mine.out = to_floats(rank.out);
      mine.d_x = to_floats(rank.d_x);
      mine.d_router_weights = rank.d_router_weights;
      mine.d_shared_gate = values(rank.d_shared_gate);
      mine.d_shared_up = values(rank.d_shared_up);
      mine.d_shared_down = values(rank.d_shared_down);
      append(run.out, mine.out);
      append(run.d_x, mine.d_x);
      append(run.d_router_weights, mine.d_router_weights);
      append(run.d_shared_gate, mine.d_shared_gate);
      append(run.d_shared_up, mine.d_shared_up);
      append(run.d_shared_down, mine.d_shared_down);
      append(run.d_gate, gather(values(rank.d_gate), elements));
      append(run.d_up, gather(values(rank.d_up), elements));
      append(run.d_down, gather(values(rank.d_down), elements));
      run.candidate.ranks.push_back(std::move(mine));
    }
    run.candidate.d_gate = run.d_gate;
    run.candidate.d_up = run.d_up;
    run.candidate.d_down = run.d_down;
    return run;
  }

 private:
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

  struct Gradient {
    std::vector<bfloat16> fresh;
    std::vector<float> main;
  };

  struct RankTensors {
    std::int64_t tokens = 0;
    std::vector<bfloat16> x, grad_output, out, d_x;
    std::vector<float> router_weights, d_router_weights;
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> ids64;
    Gradient d_gate, d_up, d_down, d_shared_gate, d_shared_up, d_shared_down;
  };

  static void poison(std::vector<bfloat16>& values) {
    std::fill(values.begin(), values.end(), to_bfloat16(kNaN));
  }

  [[nodiscard]] std::int64_t expert_stride() const {
    return problem_.intermediate * problem_.hidden + options_.expert_gap;
  }

  [[nodiscard]] std::vector<bfloat16> spread(const std::vector<double>& weights) const {
    return spread_experts(weights, problem_.experts, problem_.intermediate * problem_.hidden,
                          expert_stride());
  }

  [[nodiscard]] std::vector<float> gather(const std::vector<float>& spread_out, std::int64_t elements) const {
    std::vector<float> result;
    for (std::int64_t e = 0; e < local_experts_; ++e) {
      const auto begin = spread_out.begin() + e * expert_stride();
      result.insert(result.end(), begin, begin + elements);
    }
    return result;
  }

  [[nodiscard]] std::vector<float> values(const Gradient& gradient) const {
    return options_.main_grad ? gradient.main : to_floats(gradient.fresh);
  }

  RankTensors make_rank(const reference::RankInput& rank) const {
    RankTensors result;
    result.tokens = rank.tokens;
    result.x = to_bf16(rank.x);
    result.grad_output = to_bf16(rank.grad_output);
    result.out.resize(rank.x.size());
    result.d_x.resize(rank.x.size());
    for (const double weight : rank.router_weights)
      result.router_weights.push_back(static_cast<float>(weight));
    result.d_router_weights.resize(rank.router_weights.size());
    result.ids = rank.topk_experts;
    result.ids64.assign(rank.topk_experts.begin(), rank.topk_experts.end());
    const auto size = [this](Gradient& gradient, std::int64_t elements) {
      if (options_.main_grad) {
        gradient.main.resize(static_cast<std::size_t>(elements));
      } else {
        gradient.fresh.resize(static_cast<std::size_t>(elements));
      }
    };
    for (Gradient* routed : {&result.d_gate, &result.d_up, &result.d_down}) {
      size(*routed, local_experts_ * expert_stride());
    }
    for (Gradient* shared : {&result.d_shared_gate, &result.d_shared_up, &result.d_shared_down}) {
      size(*shared, problem_.shared_intermediate * problem_.hidden);
    }
    return result;
  }

  [[nodiscard]] ConstTensorView x(std::size_t r) const {
    return {tensors_[r].x.data(), {tensors_[r].tokens, problem_.hidden}};
  }
  [[nodiscard]] ConstTensorView router_weights(std::size_t r) const {
    return {tensors_[r].router_weights.data(), {tensors_[r].tokens, problem_.topk}};
  }
  [[nodiscard]] ExpertWeights routed(std::size_t r) const {
    const std::int64_t first = static_cast<std::int64_t>(r) * local_experts_ * expert_stride();
    const auto view = [&](const std::vector<bfloat16>& weight, std::int64_t rows, std::int64_t cols) {
      return ConstTensorView(weight.data() + first, {local_experts_, rows, cols})
          .with_expert_stride(expert_stride());
    };
    return {view(gate_, problem_.intermediate, problem_.hidden),
            view(up_, problem_.intermediate, problem_.hidden),
            view(down_, problem_.hidden, problem_.intermediate)};
  }
  [[nodiscard]] ExpertWeights shared() const {
    const std::int64_t s = problem_.shared_intermediate;
    if (s == 0) return {};
    return {ConstTensorView(shared_gate_.data(), {s, problem_.hidden}),
            ConstTensorView(shared_up_.data(), {s, problem_.hidden}),
            ConstTensorView(shared_down_.data(), {problem_.hidden, s})};
  }
  TensorView routed_gradient(Gradient& gradient, std::int64_t rows, std::int64_t cols) const {
    const std::initializer_list<std::int64_t> shape{local_experts_, rows, cols};
    const TensorView view = options_.main_grad ? TensorView(gradient.main.data(), shape)
                                               : TensorView(gradient.fresh.data(), shape);
    return view.with_expert_stride(expert_stride());
  }
  TensorView shared_gradient(Gradient& gradient, std::int64_t rows, std::int64_t cols) const {
    return options_.main_grad ? TensorView(gradient.main.data(), {rows, cols})
                              : TensorView(gradient.fresh.data(), {rows, cols});
  }

  const reference::Problem& problem_;
  RunOptions options_;
  std::size_t ranks_;
  std::int64_t local_experts_;
  std::vector<bfloat16> gate_, up_, down_, shared_gate_, shared_up_, shared_down_;
  std::vector<RankTensors> tensors_;
};

/// One forward and backward on a workspace of its own; throws what the library throws, also from check().
inline LayerRun run_layer(const reference::Problem& problem, const RunOptions& options = {}) {
  LayerHarness harness(problem, options);
  Workspace workspace(options.config, harness.workspace_options());
  const Schedule schedule = harness.schedule(workspace);
  workspace.check();
  ForwardContext context = harness.forward(workspace, schedule);
  if (options.recompute) context = harness.recompute(workspace, schedule);
  for (int i = 0; i < options.backward_runs; ++i) harness.backward(workspace, schedule, context);
  workspace.check();
  return harness.results();
}

}  // namespace mok::testing
