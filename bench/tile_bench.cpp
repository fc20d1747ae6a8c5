// SPDX-License-Identifier: Apache-2.0
// The tile GEMM alone: the ceiling of the CPU backend. Operands stay in cache; one thread.
#include <memory>
#include <random>

#include <benchmark/benchmark.h>

#include "cpu/tile_gemm.h"

namespace {

using mok::cpu::kStep;
using mok::cpu::kTile;
using mok::cpu::Layout;
using mok::cpu::TileBuffer;

void tile_gemm(benchmark::State& state, Layout a, Layout b) {
  const auto buffer = std::make_unique<TileBuffer>();
  std::minstd_rand random(1);
  const auto value = [&random] { return static_cast<float>(random() % 2001) / 1000.0f - 1.0f; };
  for (float& element : buffer->a) element = value();
  for (float& element : buffer->b) element = value();
  buffer->clear(0);
  for (auto step : state) {
    mok::cpu::tile_gemm(buffer->acc[0], buffer->a, a, buffer->b, b);
    benchmark::DoNotOptimize(buffer->acc[0][0]);
  }
  const double flops = 2.0 * kTile * kTile * kStep;
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate,
                                                 benchmark::Counter::kIs1000);
}

// What forward (both contiguous along the contraction), the gradients of activations, and those of weights
// use.
BENCHMARK_CAPTURE(tile_gemm, forward, Layout::rows_by_step, Layout::rows_by_step);
BENCHMARK_CAPTURE(tile_gemm, activation_gradient, Layout::rows_by_step, Layout::step_by_rows);
BENCHMARK_CAPTURE(tile_gemm, weight_gradient, Layout::step_by_rows, Layout::step_by_rows);

}  // namespace
