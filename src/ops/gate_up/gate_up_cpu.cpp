// SPDX-License-Identifier: Apache-2.0
#include "ops/gate_up/gate_up.h"

#include <algorithm>

#include "cpu/tile_gemm.h"

namespace mok::ops {

using cpu::kStep;
using cpu::kTile;

void GateUp::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  const Activations rows =
      activations(view, program::is_shared(task.op), task.expert, task.macrobatch, task.ring_row);
  const std::int64_t hidden = view.dims.hidden;
  const bfloat16* const gate_weight = rows.weights->gate.of(rows.expert) + task.col_begin * hidden;
  const bfloat16* const up_weight = rows.weights->up.of(rows.expert) + task.col_begin * hidden;
  buffer.clear(0);
  buffer.clear(1);
  for (std::int64_t k = 0; k < hidden; k += kStep) {
    cpu::load_tile<kStep>(buffer.a, kTile, rows.x + k, hidden, task.row_count, kStep);
    cpu::load_tile<kStep>(buffer.b, kTile, gate_weight + k, hidden, task.col_count, kStep);
    cpu::tile_gemm(buffer.acc[0], buffer.a, cpu::Layout::rows_by_step, buffer.b, cpu::Layout::rows_by_step);
    cpu::load_tile<kStep>(buffer.b, kTile, up_weight + k, hidden, task.col_count, kStep);
    cpu::tile_gemm(buffer.acc[1], buffer.a, cpu::Layout::rows_by_step, buffer.b, cpu::Layout::rows_by_step);
  }
  const bool wants_hidden = view.pass == program::Pass::forward;
  for (std::int64_t r = 0; r < task.padded_rows; ++r) {
    const std::int64_t at = r * rows.intermediate + task.col_begin;
    bfloat16* const gate = rows.gate + at;
    bfloat16* const up = rows.up + at;
    bfloat16* const result = rows.hidden + at;
    if (r >= task.row_count) {
      std::fill_n(gate, task.col_count, bfloat16{});
      std::fill_n(up, task.col_count, bfloat16{});
      if (wants_hidden) std::fill_n(result, task.col_count, bfloat16{});
      continue;
    }
    cpu::store_row(gate, buffer.acc[0] + r * kTile, task.col_count);
    cpu::store_row(up, buffer.acc[1] + r * kTile, task.col_count);
    if (!wants_hidden) continue;
    for (std::int64_t c = 0; c < task.col_count; ++c) result[c] = swiglu(gate[c], up[c], view.limit);
  }
}

static_assert(CpuOp<GateUp>);

}  // namespace mok::ops
