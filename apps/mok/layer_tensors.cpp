// SPDX-License-Identifier: Apache-2.0
#include "mok/layer_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "mok/parallel.h"
#include "mok/random.h"

namespace mok::tool {

namespace {

// Streams of one seed.
constexpr std::uint64_t kRoutedStream = 1;
constexpr std::uint64_t kSharedStream = 2;
constexpr std::uint64_t kTokenStream = 3;

/// Elements that one stream fills.
constexpr std::int64_t kRandomBlock = 1 << 16;

/// Uniform numbers of mean 0 and this standard deviation: four of them from each random word.
Bf16 random_values(std::int64_t size, double deviation, std::uint64_t seed) {
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // A uniform number in [-2^15, 2^15) has a standard deviation of 2^15 / sqrt(3).
  const auto scale = static_cast<float>(deviation * std::sqrt(3.0) * 0x1p-15);
  Bf16 values(static_cast<std::size_t>(size));
  parallel_ranges(threads, size, kRandomBlock, [&](std::int64_t begin, std::int64_t count) {
    Random random(seed, static_cast<std::uint64_t>(begin / kRandomBlock));
    std::uint64_t word = 0;
    for (std::int64_t i = 0; i < count; ++i, word >>= 16) {
      if (i % 4 == 0) word = random.next();
      const auto number = static_cast<std::int16_t>(word & 0xFFFF);
      values[static_cast<std::size_t>(begin + i)] = to_bfloat16(scale * static_cast<float>(number));
    }
  });
  return values;
}

/// topk different experts for every token: the first of a shuffled list, shuffled on for the next token.
std::vector<std::int32_t> random_experts(const LayerSizes& shape, Random& random) {
  std::vector<std::int32_t> experts(static_cast<std::size_t>(shape.experts));
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<std::int32_t> chosen;
  chosen.reserve(static_cast<std::size_t>(shape.tokens * shape.topk));
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape.topk); ++k) {
      std::swap(experts[k], experts[k + random.below(experts.size() - k)]);
      chosen.push_back(experts[k]);
    }
  }
  return chosen;
}

/// Of so many experts of this width.
Weights random_weights(const LayerSizes& shape, std::int64_t experts, std::int64_t intermediate, Random seeds,
                       const Device& device) {
  const std::int64_t size = experts * intermediate * shape.hidden;
  const double by_hidden = 1 / std::sqrt(static_cast<double>(shape.hidden));
  const double by_intermediate = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, intermediate)));
  Weights weights;
  weights.gate = {random_values(size, by_hidden, seeds.next()), device};
  weights.up = {random_values(size, by_hidden, seeds.next()), device};
  weights.down = {random_values(size, by_intermediate, seeds.next()), device};
  return weights;
}

}  // namespace

Bf16 narrow(const std::vector<double>& values) {
  Bf16 result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [](double value) { return to_bfloat16(static_cast<float>(value)); });
  return result;
}

Bf16 poisoned(std::int64_t size) {
  return Bf16(static_cast<std::size_t>(size), to_bfloat16(std::numeric_limits<float>::quiet_NaN()));
}

std::vector<ConstTensorView> LayerTensors::topk_experts() {
  std::vector<ConstTensorView> views;
  for (RankTensors& rank : ranks) {
    views.emplace_back(rank.topk_experts.data(), std::initializer_list<std::int64_t>{rank.tokens, shape.topk},
                       device);
  }
  return views;
}

std::vector<ForwardInput> LayerTensors::forward_inputs() {
  std::vector<ForwardInput> inputs;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    RankTensors& rank = ranks[r];
    inputs.push_back(
        {.x = ConstTensorView(rank.x.data(), {rank.tokens, shape.hidden}, device),
         .router_weights = ConstTensorView(rank.router_weights.data(), {rank.tokens, shape.topk}, device),
         .routed = routed_part<ExpertWeights>(routed, shape, static_cast<std::int64_t>(r), device),
         .shared = shared_part<ExpertWeights>(shared, shape, device),
         .out = TensorView(rank.out.data(), {rank.tokens, shape.hidden}, device)});
  }
  return inputs;
}

LayerSizes sizes_of(const reference::Problem& problem) {
  LayerSizes shape;
  shape.tokens = 1;
  for (const reference::RankInput& rank : problem.ranks) shape.tokens = std::max(shape.tokens, rank.tokens);
  shape.hidden = problem.hidden;
  shape.intermediate = problem.intermediate;
  shape.shared_intermediate = problem.shared_intermediate;
  shape.experts = problem.experts;
  shape.topk = problem.topk;
  shape.ranks = static_cast<std::int64_t>(problem.ranks.size());
  return shape;
}

LayerTensors tensors_of(const reference::Problem& problem, const Device& device) {
  const auto on_device = [&](const std::vector<double>& values) {
    return DeviceArray<bfloat16>(narrow(values), device);
  };
  LayerTensors tensors;
  tensors.shape = sizes_of(problem);
  tensors.device = device;
  tensors.routed = {on_device(problem.gate), on_device(problem.up), on_device(problem.down)};
  tensors.shared = {on_device(problem.shared_gate), on_device(problem.shared_up),
                    on_device(problem.shared_down)};
  for (const reference::RankInput& input : problem.ranks) {
    RankTensors rank;
    rank.tokens = input.tokens;
    rank.x = on_device(input.x);
    rank.topk_experts = {input.topk_experts, device};
    rank.router_weights = {{input.router_weights.begin(), input.router_weights.end()}, device};
    rank.out = {poisoned(input.tokens * problem.hidden), device};
    tensors.ranks.push_back(std::move(rank));
  }
  return tensors;
}

LayerTensors random_tensors(const LayerSizes& shape, std::uint64_t seed, const Device& device) {
  LayerTensors tensors;
  tensors.shape = shape;
  tensors.device = device;
  tensors.routed =
      random_weights(shape, shape.experts, shape.intermediate, Random(seed, kRoutedStream), device);
  tensors.shared = random_weights(shape, 1, shape.shared_intermediate, Random(seed, kSharedStream), device);
  Random random(seed, kTokenStream);
  for (std::int64_t r = 0; r < shape.ranks; ++r) {
    RankTensors rank;
    rank.tokens = shape.tokens;
    rank.x = {random_values(shape.tokens * shape.hidden, 1, random.next()), device};
    rank.topk_experts = {random_experts(shape, random), device};
    const auto routes = static_cast<std::size_t>(shape.tokens * shape.topk);
    rank.router_weights = {std::vector<float>(routes, 1.0F / static_cast<float>(shape.topk)), device};
    rank.out = {poisoned(shape.tokens * shape.hidden), device};
    tensors.ranks.push_back(std::move(rank));
  }
  return tensors;
}

double tensor_bytes(const LayerSizes& shape) {
  const auto of = [](std::int64_t number) { return static_cast<double>(number); };
  const double weights =
      3 * of(shape.hidden) * (of(shape.experts) * of(shape.intermediate) + of(shape.shared_intermediate)) * 2;
  const double tokens = of(shape.ranks) * of(shape.tokens) * (of(shape.hidden) * 4 + of(shape.topk) * 8);
  return weights + tokens;
}

}  // namespace mok::tool
