// SPDX-License-Identifier: Apache-2.0
#include "ops/down/down.h"

#include "cpu/tile_gemm.h"
#include "ops/push_rows.h"

namespace mok::ops {

using cpu::kStep;
using cpu::kTile;

void Down::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  const Activations rows =
      activations(view, program::is_shared(task.op), task.expert, task.macrobatch, task.ring_row);
  const std::int64_t intermediate = rows.intermediate;
  const bfloat16* const weight = rows.weights->down.of(rows.expert) + task.col_begin * intermediate;
  buffer.clear(0);
  for (std::int64_t k = 0; k < intermediate; k += kStep) {
    cpu::load_tile<kStep>(buffer.a, kTile, rows.hidden + k, intermediate, task.row_count, kStep);
    cpu::load_tile<kStep>(buffer.b, kTile, weight + k, intermediate, task.col_count, kStep);
    cpu::tile_gemm(buffer.acc[0], buffer.a, cpu::Layout::rows_by_step, buffer.b, cpu::Layout::rows_by_step);
  }
  for (std::int64_t r = 0; r < task.row_count; ++r) {
    cpu::store_row(pushed_row(view, task, r), buffer.acc[0] + r * kTile, task.col_count);
  }
}

static_assert(CpuOp<Down>);

}  // namespace mok::ops
