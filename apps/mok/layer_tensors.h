// SPDX-License-Identifier: Apache-2.0
// What a forward reads and writes, on the device that it runs on.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <mok/layer.h>

#include "mok/device_memory.h"
#include "mok/layer_setup.h"
#include "reference/moe_reference.h"

namespace mok::tool {

using Bf16 = std::vector<bfloat16>;

/// A tensor of each kind of weight. Routed ones are those of all experts, in order.
struct Weights {
  DeviceArray<bfloat16> gate, up, down;
};

/// What one rank brings and gets.
struct RankTensors {
  std::int64_t tokens = 0;
  DeviceArray<bfloat16> x;
  DeviceArray<std::int32_t> topk_experts;
  DeviceArray<float> router_weights;
  DeviceArray<bfloat16> out;  ///< NaN at first
};

struct LayerTensors {
  LayerSizes shape;  ///< its tokens are the most that a rank has
  Device device;
  Weights routed, shared;
  std::vector<RankTensors> ranks;

  // Views, valid as long as this stays where it is.
  [[nodiscard]] std::vector<ConstTensorView> topk_experts();
  [[nodiscard]] std::vector<ForwardInput> forward_inputs();
};

/// The sizes of a problem.
LayerSizes sizes_of(const reference::Problem& problem);

/// The tensors of a problem, whose numbers are bf16 already, so that nothing is rounded.
LayerTensors tensors_of(const reference::Problem& problem, const Device& device);

/// Uniform numbers of the usual variances, and for every token topk experts that are equally likely. Made
/// fast, for sizes whose problem in float64 would be too large.
LayerTensors random_tensors(const LayerSizes& shape, std::uint64_t seed, const Device& device);

/// Bytes of the tensors over all ranks.
double tensor_bytes(const LayerSizes& shape);

Bf16 narrow(const std::vector<double>& values);
Bf16 poisoned(std::int64_t size);

/// The views on a rank's part of `weights`. View is ExpertWeights or WeightGradients.
template <class View>
View routed_part(Weights& weights, const LayerSizes& shape, std::int64_t rank, const Device& device) {
  using Tensor = decltype(View::gate);
  const std::int64_t local = shape.experts / shape.ranks;
  const std::int64_t i = shape.intermediate;
  const std::int64_t h = shape.hidden;
  const std::int64_t offset = rank * local * i * h;
  return {Tensor(weights.gate.data() + offset, {local, i, h}, device),
          Tensor(weights.up.data() + offset, {local, i, h}, device),
          Tensor(weights.down.data() + offset, {local, h, i}, device)};
}

/// The views on shared weights; undefined ones without a shared expert.
template <class View>
View shared_part(Weights& weights, const LayerSizes& shape, const Device& device) {
  using Tensor = decltype(View::gate);
  const std::int64_t i = shape.shared_intermediate;
  const std::int64_t h = shape.hidden;
  if (i == 0) return {};
  return {Tensor(weights.gate.data(), {i, h}, device), Tensor(weights.up.data(), {i, h}, device),
          Tensor(weights.down.data(), {h, i}, device)};
}

}  // namespace mok::tool
