// SPDX-License-Identifier: Apache-2.0
#include "mok/layer_run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <mok/layer.h>
#include <mok/workspace.h>

#include "mok/layer_tensors.h"

namespace mok::tool {

namespace {

std::vector<float> widen(const Bf16& values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](bfloat16 value) { return to_float(value); });
  return result;
}

/// What backward reads and writes of one rank, beside what forward does.
struct RankGradients {
  DeviceArray<bfloat16> grad_output, d_x;
  DeviceArray<float> d_router_weights;
  Weights d_shared;
};

class LayerRun {
 public:
  LayerRun(const reference::Problem& problem, const Config& config, const Device& device)
      : device_(device),
        workspace_(config, workspace_options(sizes_of(problem), device)),
        tensors_(tensors_of(problem, device)) {
    if (!has_backward(device_)) return;
    d_routed_ = poisoned_weights(problem.experts * problem.intermediate);
    for (const reference::RankInput& input : problem.ranks) {
      RankGradients rank;
      rank.grad_output = {narrow(input.grad_output), device_};
      rank.d_x = {poisoned(input.tokens * problem.hidden), device_};
      rank.d_router_weights = {
          std::vector<float>(input.router_weights.size(), std::numeric_limits<float>::quiet_NaN()), device_};
      rank.d_shared = poisoned_weights(problem.shared_intermediate);
      gradients_.push_back(std::move(rank));
    }
  }

  void run(bool staged) {
    PassOptions options;
    options.staged = staged;
    const Schedule schedule =
        build_schedule(workspace_, tensors_.topk_experts(), static_cast<int>(tensors_.shape.experts));
    workspace_.check();
    const ForwardContext context = mok::forward(workspace_, schedule, tensors_.forward_inputs(), options);
    workspace_.check();
    if (!has_backward(device_)) return;
    mok::backward(workspace_, schedule, context, backward_inputs(), options);
    workspace_.check();
  }

  [[nodiscard]] reference::Candidate result() const {
    reference::Candidate result;
    for (const RankTensors& rank : tensors_.ranks) result.ranks.emplace_back().out = widen(rank.out.values());
    for (std::size_t r = 0; r < gradients_.size(); ++r) {
      const RankGradients& rank = gradients_[r];
      auto& to = result.ranks[r];
      to.d_x = widen(rank.d_x.values());
      to.d_router_weights = rank.d_router_weights.values();
      to.d_shared_gate = widen(rank.d_shared.gate.values());
      to.d_shared_up = widen(rank.d_shared.up.values());
      to.d_shared_down = widen(rank.d_shared.down.values());
    }
    result.d_gate = widen(d_routed_.gate.values());
    result.d_up = widen(d_routed_.up.values());
    result.d_down = widen(d_routed_.down.values());
    return result;
  }

 private:
  /// Of `rows` rows of gate and up, and as many columns of down.
  [[nodiscard]] Weights poisoned_weights(std::int64_t rows) const {
    const auto one = [&] { return DeviceArray<bfloat16>(poisoned(rows * tensors_.shape.hidden), device_); };
    return {one(), one(), one()};
  }

  std::vector<BackwardInput> backward_inputs() {
    const LayerSizes& shape = tensors_.shape;
    const std::vector<ForwardInput> forward = tensors_.forward_inputs();
    std::vector<BackwardInput> inputs;
    for (std::size_t r = 0; r < gradients_.size(); ++r) {
      RankGradients& rank = gradients_[r];
      const std::int64_t tokens = tensors_.ranks[r].tokens;
      inputs.push_back(
          {.grad_output = ConstTensorView(rank.grad_output.data(), {tokens, shape.hidden}, device_),
           .x = forward[r].x,
           .router_weights = forward[r].router_weights,
           .routed = forward[r].routed,
           .shared = forward[r].shared,
           .d_x = TensorView(rank.d_x.data(), {tokens, shape.hidden}, device_),
           .d_router_weights = TensorView(rank.d_router_weights.data(), {tokens, shape.topk}, device_),
           .d_routed = routed_part<WeightGradients>(d_routed_, shape, static_cast<std::int64_t>(r), device_),
           .d_shared = shared_part<WeightGradients>(rank.d_shared, shape, device_)});
    }
    return inputs;
  }

  Device device_;
  Workspace workspace_;  ///< before any tensor: it is what says that a device is not there
  LayerTensors tensors_;
  std::vector<RankGradients> gradients_;  ///< none without a backward
  Weights d_routed_;
};

}  // namespace

reference::Candidate run_layer(const reference::Problem& problem, const Config& config, bool staged,
                               const Device& device) {
  LayerRun run(problem, config, device);
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
