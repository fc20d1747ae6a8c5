// SPDX-License-Identifier: Apache-2.0
// Runs forwards of a problem of the float64 reference on the GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <mok/mok.h>

#include "cuda/support/device_buffer.h"
#include "cuda/support/gpu.h"
#include "reference/moe_reference.h"
#include "support/layer_run.h"

namespace mok::testing {

/// A problem's tensors in the GPU's memory. The gaps between experts and the outputs are NaN at first.
class GpuLayer {
 public:
  explicit GpuLayer(const reference::Problem& problem, std::int64_t expert_gap = 0)
      : problem_(problem),
        expert_stride_(problem.intermediate * problem.hidden + expert_gap),
        gate_(spread(problem.gate)),
        up_(spread(problem.up)),
        down_(spread(problem.down)),
        shared_gate_(to_bf16(problem.shared_gate)),
        shared_up_(to_bf16(problem.shared_up)),
        shared_down_(to_bf16(problem.shared_down)) {
    for (const reference::RankInput& rank : problem.ranks) {
      ranks_.push_back(
          {rank.tokens, DeviceBuffer<bfloat16>(to_bf16(rank.x)),
           DeviceBuffer<bfloat16>(static_cast<std::int64_t>(rank.x.size())),
           DeviceBuffer<float>(std::vector<float>(rank.router_weights.begin(), rank.router_weights.end())),
           DeviceBuffer<std::int32_t>(rank.topk_experts)});
    }
  }

  [[nodiscard]] WorkspaceOptions workspace_options() const {
    std::int64_t most = 1;
    for (const Rank& rank : ranks_) most = std::max(most, rank.tokens);
    return {static_cast<int>(ranks_.size()), most, problem_.hidden, static_cast<int>(problem_.topk), kGpu};
  }

  [[nodiscard]] Schedule schedule(Workspace& workspace, void* stream = nullptr) const {
    std::vector<ConstTensorView> ids;
    for (const Rank& rank : ranks_) {
      ids.emplace_back(rank.ids.data(), std::initializer_list<std::int64_t>{rank.tokens, problem_.topk});
    }
    ScheduleOptions options;
    options.stream = stream;
    return build_schedule(workspace, ids, static_cast<int>(problem_.experts), options);
  }

  [[nodiscard]] std::vector<ForwardInput> inputs() const {
    std::vector<ForwardInput> inputs;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      inputs.push_back({ConstTensorView(rank.x.data(), {rank.tokens, problem_.hidden}),
                        ConstTensorView(rank.router_weights.data(), {rank.tokens, problem_.topk}), routed(r),
                        shared(), TensorView(rank.out.data(), {rank.tokens, problem_.hidden})});
    }
    return inputs;
  }

  [[nodiscard]] PassOptions pass_options() const {
    PassOptions options;
    if (problem_.swiglu_limit) options.swiglu_limit = static_cast<float>(*problem_.swiglu_limit);
    return options;
  }

  void poison_outputs() {
    for (Rank& rank : ranks_) rank.out.poison();
  }

  /// Outputs are poisoned first and complete on return. Throws what the library throws, also from check().
  ForwardContext forward(Workspace& workspace, const Schedule& schedule, bool staged = false) {
    poison_outputs();
    PassOptions options = pass_options();
    options.staged = staged;
    ForwardContext context = mok::forward(workspace, schedule, inputs(), options);
    workspace.check();
    return context;
  }

  /// Out of all ranks, one after the other.
  [[nodiscard]] std::vector<float> out() const {
    std::vector<float> all;
    for (const Rank& rank : ranks_) {
      const std::vector<float> mine = to_floats(rank.out.download());
      all.insert(all.end(), mine.begin(), mine.end());
    }
    return all;
  }

  /// As the derived bound wants it: the outputs alone.
  [[nodiscard]] reference::Candidate candidate() const {
    reference::Candidate candidate;
    for (const Rank& rank : ranks_) {
      reference::BasicRankResult<float> mine;
      mine.out = to_floats(rank.out.download());
      candidate.ranks.push_back(std::move(mine));
    }
    return candidate;
  }

 private:
  struct Rank {
    std::int64_t tokens = 0;
    DeviceBuffer<bfloat16> x, out;
    DeviceBuffer<float> router_weights;
    DeviceBuffer<std::int32_t> ids;
  };

  [[nodiscard]] std::vector<bfloat16> spread(const std::vector<double>& weights) const {
    return spread_experts(weights, problem_.experts, problem_.intermediate * problem_.hidden, expert_stride_);
  }

  [[nodiscard]] ExpertWeights routed(std::size_t rank) const {
    const std::int64_t local = problem_.experts / static_cast<std::int64_t>(ranks_.size());
    const std::int64_t first = static_cast<std::int64_t>(rank) * local * expert_stride_;
    const auto view = [&](const DeviceBuffer<bfloat16>& weight, std::int64_t rows, std::int64_t cols) {
      return ConstTensorView(weight.data() + first, {local, rows, cols}).with_expert_stride(expert_stride_);
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

  const reference::Problem& problem_;
  std::int64_t expert_stride_;
  DeviceBuffer<bfloat16> gate_, up_, down_, shared_gate_, shared_up_, shared_down_;
  std::vector<Rank> ranks_;
};

}  // namespace mok::testing
