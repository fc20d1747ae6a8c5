// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_grad/weight_grad.h"

#include <algorithm>

#include "cpu/tile_gemm.h"

namespace mok::ops {
namespace {

using cpu::kStep;
using cpu::kTile;

/// The carried accumulator's tile for the boundary behind `macrobatch`. Buffers are used in turn.
float* carry_tile(const RankView& view, const program::Task& task, std::int64_t macrobatch,
                  std::int64_t cols) {
  const std::int64_t elements = view.dims.intermediate * view.dims.hidden;
  const std::int64_t buffer = macrobatch % 2 * program::kNumMatrices + static_cast<std::int64_t>(task.matrix);
  return view.carry + buffer * elements + task.out_row_begin * cols + task.col_begin;
}

/// acc over the task's rows: acc[i][j] += sum over rows of a[row][i] * b[row][j].
void accumulate(const program::Task& task, const bfloat16* a, std::int64_t a_stride, const bfloat16* b,
                std::int64_t b_stride, cpu::TileBuffer& buffer) {
  for (std::int64_t k = 0; k < task.row_count; k += kStep) {
    const std::int64_t rows = std::min(kStep, task.row_count - k);
    cpu::load_tile<kTile>(buffer.a, kStep, a + k * a_stride, a_stride, rows, task.out_row_count);
    cpu::load_tile<kTile>(buffer.b, kStep, b + k * b_stride, b_stride, rows, task.col_count);
    cpu::tile_gemm(buffer.acc[0], buffer.a, cpu::Layout::step_by_rows, buffer.b, cpu::Layout::step_by_rows);
  }
}

void store_gradient(const GradientView& gradient, std::int32_t expert, const program::Task& task,
                    std::int64_t cols, const cpu::TileBuffer& buffer) {
  for (std::int64_t r = 0; r < task.out_row_count; ++r) {
    const std::int64_t at =
        expert * gradient.expert_stride + (task.out_row_begin + r) * cols + task.col_begin;
    const float* const from = buffer.acc[0] + r * kTile;
    if (gradient.is_main_grad) {
      float* const to = static_cast<float*>(gradient.data) + at;
      for (std::int64_t c = 0; c < task.col_count; ++c) to[c] = add(to[c], from[c]);
    } else {
      cpu::store_row(static_cast<bfloat16*>(gradient.data) + at, from, task.col_count);
    }
  }
}

}  // namespace

void WeightGrad::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  const bool shared = program::is_shared(task.op);
  const bool is_down = task.matrix == program::Matrix::down;
  const Activations rows =
      activations(view, shared, std::max(task.expert, 0), task.macrobatch, task.ring_row);
  const std::int64_t hidden = view.dims.hidden;
  const std::int64_t cols = is_down ? rows.intermediate : hidden;
  const GradientView& gradient = (shared ? view.d_shared : view.d_routed).of(task.matrix);
  if (task.row_count == 0 && gradient.is_main_grad) return;

  buffer.clear(0);
  if (!task.opens_sum) {
    const float* const carried = carry_tile(view, task, task.macrobatch - 1, cols);
    for (std::int64_t r = 0; r < task.out_row_count; ++r) {
      std::copy_n(carried + r * cols, task.col_count, buffer.acc[0] + r * kTile);
    }
  }
  if (is_down) {
    accumulate(task, rows.grad + task.out_row_begin, hidden, rows.hidden + task.col_begin, rows.intermediate,
               buffer);
  } else {
    const bfloat16* const d_activation = task.matrix == program::Matrix::gate ? rows.d_gate : rows.d_up;
    accumulate(task, d_activation + task.out_row_begin, rows.intermediate, rows.x + task.col_begin, hidden,
               buffer);
  }
  if (task.closes_sum) {
    store_gradient(gradient, rows.expert, task, cols, buffer);
    return;
  }
  float* const carried = carry_tile(view, task, task.macrobatch, cols);
  for (std::int64_t r = 0; r < task.out_row_count; ++r) {
    std::copy_n(buffer.acc[0] + r * kTile, task.col_count, carried + r * cols);
  }
}

static_assert(CpuOp<WeightGrad>);

}  // namespace mok::ops
