// SPDX-License-Identifier: Apache-2.0
#include "ops/dhidden/dhidden.h"

#include <algorithm>

#include "cpu/tile_gemm.h"

namespace mok::ops {
namespace {

using cpu::kStep;
using cpu::kTile;

/// Sums of dHraw * Hd over each kPartialCols columns of one row.
void store_partials(float* partials, const float* d_hidden_raw, const bfloat16* gate, const bfloat16* up,
                    std::int64_t cols, SwigluLimit limit) {
  for (std::int64_t begin = 0; begin < cols; begin += program::kPartialCols) {
    float hidden[program::kPartialCols];
    for (std::int64_t c = 0; c < program::kPartialCols; ++c) {
      hidden[c] = to_float(swiglu(gate[begin + c], up[begin + c], limit));
    }
    float sum = 0.0f;
    for (std::int64_t c = 0; c < program::kPartialCols; ++c)
      sum = fma(d_hidden_raw[begin + c], hidden[c], sum);
    *partials++ = sum;
  }
}

}  // namespace

void DHidden::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  const bool shared = program::is_shared(task.op);
  const Activations rows = activations(view, shared, task.expert, task.macrobatch, task.ring_row);
  const std::int64_t hidden = view.dims.hidden;
  const std::int64_t intermediate = rows.intermediate;
  const bfloat16* const weight = rows.weights->down.of(rows.expert) + task.col_begin;
  buffer.clear(0);
  for (std::int64_t k = 0; k < hidden; k += kStep) {
    cpu::load_tile<kStep>(buffer.a, kTile, rows.grad + k, hidden, task.row_count, kStep);
    cpu::load_tile<kTile>(buffer.b, kStep, weight + k * intermediate, intermediate, kStep, task.col_count);
    cpu::tile_gemm(buffer.acc[0], buffer.a, cpu::Layout::rows_by_step, buffer.b, cpu::Layout::step_by_rows);
  }
  for (std::int64_t r = 0; r < task.padded_rows; ++r) {
    const std::int64_t at = r * intermediate + task.col_begin;
    bfloat16* const d_gate = rows.d_gate + at;
    bfloat16* const d_up = rows.d_up + at;
    bfloat16* const weighted_hidden = rows.hidden + at;
    if (r >= task.row_count) {
      std::fill_n(d_gate, task.col_count, bfloat16{});
      std::fill_n(d_up, task.col_count, bfloat16{});
      std::fill_n(weighted_hidden, task.col_count, bfloat16{});
      continue;
    }
    const float* const d_hidden_raw = buffer.acc[0] + r * kTile;
    const bfloat16* const gate = rows.gate + at;
    const bfloat16* const up = rows.up + at;
    const float weight_of_row = shared ? 1.0f : view.row_weights[task.ring_row + r];
    for (std::int64_t c = 0; c < task.col_count; ++c) {
      const SwigluGradient gradient =
          swiglu_gradient(mul(weight_of_row, d_hidden_raw[c]), gate[c], up[c], view.limit);
      d_gate[c] = gradient.d_gate;
      d_up[c] = gradient.d_up;
      weighted_hidden[c] = to_bfloat16(mul(weight_of_row, to_float(swiglu(gate[c], up[c], view.limit))));
    }
    if (shared) continue;
    store_partials(view.weight_partials + (task.ring_row + r) * view.dims.partials() +
                       task.col_begin / program::kPartialCols,
                   d_hidden_raw, gate, up, task.col_count, view.limit);
  }
}

static_assert(CpuOp<DHidden>);

}  // namespace mok::ops
