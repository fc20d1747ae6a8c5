// SPDX-License-Identifier: Apache-2.0
// Schedule, forward and backward on the CPU. FLOPs count real routes only: forward 6*T*K*H*I, backward twice
// that.
#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <mok/mok.h>

namespace {

using mok::bfloat16;
using mok::ConstTensorView;
using mok::TensorView;

struct Sizes {
  std::int64_t tokens, hidden, intermediate;
  int experts, topk, ranks;
};

/// One rank's tensors, random, with its outputs.
struct RankTensors {
  std::vector<bfloat16> x, grad_output, gate, up, down, out, d_x, d_gate, d_up, d_down;
  std::vector<float> router_weights, d_router_weights;
  std::vector<std::int32_t> ids;
};

std::vector<bfloat16> random_bf16(std::mt19937& random, std::int64_t count, double scale) {
  std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
  std::vector<bfloat16> values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return mok::to_bfloat16(normal(random)); });
  return values;
}

/// A workspace, a schedule of uniform random routing, and inputs for both passes.
class Layer {
 public:
  explicit Layer(const Sizes& sizes)
      : sizes_(sizes),
        workspace_({}, {sizes.ranks, sizes.tokens, sizes.hidden, sizes.topk, {}}),
        ranks_(static_cast<std::size_t>(sizes.ranks)) {
    std::mt19937 random(7);
    const std::int64_t weights = sizes.experts / sizes.ranks * sizes.intermediate * sizes.hidden;
    std::vector<std::int32_t> experts(static_cast<std::size_t>(sizes.experts));
    for (int e = 0; e < sizes.experts; ++e) experts[static_cast<std::size_t>(e)] = e;
    for (RankTensors& rank : ranks_) {
      rank.x = random_bf16(random, sizes.tokens * sizes.hidden, 1.0);
      rank.grad_output = random_bf16(random, sizes.tokens * sizes.hidden, 1.0);
      rank.gate = random_bf16(random, weights, 1.0 / std::sqrt(static_cast<double>(sizes.hidden)));
      rank.up = random_bf16(random, weights, 1.0 / std::sqrt(static_cast<double>(sizes.hidden)));
      rank.down = random_bf16(random, weights, 1.0 / std::sqrt(static_cast<double>(sizes.intermediate)));
      rank.out.resize(rank.x.size());
      rank.d_x.resize(rank.x.size());
      rank.d_gate.resize(rank.gate.size());
      rank.d_up.resize(rank.up.size());
      rank.d_down.resize(rank.down.size());
      for (std::int64_t t = 0; t < sizes.tokens; ++t) {
        std::shuffle(experts.begin(), experts.end(), random);
        rank.ids.insert(rank.ids.end(), experts.begin(), experts.begin() + sizes.topk);
      }
      rank.router_weights.assign(rank.ids.size(), 1.0f / static_cast<float>(sizes.topk));
      rank.d_router_weights.resize(rank.ids.size());
    }
  }

  [[nodiscard]] mok::Schedule schedule() {
    std::vector<ConstTensorView> ids;
    for (const RankTensors& rank : ranks_) ids.push_back({rank.ids.data(), {sizes_.tokens, sizes_.topk}});
    return mok::build_schedule(workspace_, ids, sizes_.experts);
  }

  mok::ForwardContext forward(const mok::Schedule& schedule) {
    std::vector<mok::ForwardInput> inputs;
    for (RankTensors& rank : ranks_) {
      inputs.push_back({tokens(rank.x),
                        choices(rank.router_weights),
                        weights(rank),
                        {},
                        TensorView(rank.out.data(), {sizes_.tokens, sizes_.hidden})});
    }
    return mok::forward(workspace_, schedule, inputs);
  }

  void backward(const mok::Schedule& schedule, const mok::ForwardContext& context) {
    std::vector<mok::BackwardInput> inputs;
    const std::int64_t local = sizes_.experts / sizes_.ranks;
    const std::int64_t h = sizes_.hidden;
    const std::int64_t i = sizes_.intermediate;
    for (RankTensors& rank : ranks_) {
      mok::BackwardInput input;
      input.grad_output = tokens(rank.grad_output);
      input.x = tokens(rank.x);
      input.router_weights = choices(rank.router_weights);
      input.routed = weights(rank);
      input.d_x = TensorView(rank.d_x.data(), {sizes_.tokens, h});
      input.d_router_weights = TensorView(rank.d_router_weights.data(), {sizes_.tokens, sizes_.topk});
      input.d_routed = {TensorView(rank.d_gate.data(), {local, i, h}),
                        TensorView(rank.d_up.data(), {local, i, h}),
                        TensorView(rank.d_down.data(), {local, h, i})};
      inputs.push_back(input);
    }
    mok::backward(workspace_, schedule, context, inputs);
  }

  /// Per forward pass, over all ranks.
  [[nodiscard]] double flops() const {
    return 6.0 * static_cast<double>(sizes_.ranks * sizes_.tokens * sizes_.topk) *
           static_cast<double>(sizes_.hidden * sizes_.intermediate);
  }

 private:
  [[nodiscard]] ConstTensorView tokens(const std::vector<bfloat16>& rows) const {
    return {rows.data(), {sizes_.tokens, sizes_.hidden}};
  }
  [[nodiscard]] ConstTensorView choices(const std::vector<float>& rows) const {
    return {rows.data(), {sizes_.tokens, sizes_.topk}};
  }
  [[nodiscard]] mok::ExpertWeights weights(const RankTensors& rank) const {
    const std::int64_t local = sizes_.experts / sizes_.ranks;
    return {ConstTensorView(rank.gate.data(), {local, sizes_.intermediate, sizes_.hidden}),
            ConstTensorView(rank.up.data(), {local, sizes_.intermediate, sizes_.hidden}),
            ConstTensorView(rank.down.data(), {local, sizes_.hidden, sizes_.intermediate})};
  }

  Sizes sizes_;
  mok::Workspace workspace_;
  std::vector<RankTensors> ranks_;
};

Sizes sizes_of(const benchmark::State& state) {
  return {state.range(0),
          state.range(1),
          state.range(2),
          static_cast<int>(state.range(3)),
          static_cast<int>(state.range(4)),
          static_cast<int>(state.range(5))};
}

/// GFLOP/s per core that the pass can use.
void count_flops(benchmark::State& state, double flops) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  state.counters["GFLOP/s/core"] = benchmark::Counter(
      flops * 1e-9 / cores, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void schedule(benchmark::State& state) {
  Layer layer(sizes_of(state));
  for (auto step : state) benchmark::DoNotOptimize(layer.schedule());
}

void forward(benchmark::State& state) {
  Layer layer(sizes_of(state));
  const mok::Schedule schedule = layer.schedule();
  for (auto step : state) benchmark::DoNotOptimize(layer.forward(schedule));
  count_flops(state, layer.flops());
}

void backward(benchmark::State& state) {
  Layer layer(sizes_of(state));
  const mok::Schedule schedule = layer.schedule();
  const mok::ForwardContext context = layer.forward(schedule);
  for (auto step : state) layer.backward(schedule, context);
  count_flops(state, 2 * layer.flops());
}

void forward_backward(benchmark::State& state) {
  Layer layer(sizes_of(state));
  const mok::Schedule schedule = layer.schedule();
  for (auto step : state) layer.backward(schedule, layer.forward(schedule));
  count_flops(state, 3 * layer.flops());
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "H", "I", "E", "K", "R"})
      ->Args({2048, 1024, 512, 16, 4, 1})
      ->Args({512, 1024, 512, 16, 4, 4})
      ->Args({256, 256, 128, 8, 2, 4})
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(schedule)->Apply(shapes);
BENCHMARK(forward)->Apply(shapes);
BENCHMARK(backward)->Apply(shapes);
BENCHMARK(forward_backward)->Apply(shapes);

}  // namespace
