// SPDX-License-Identifier: Apache-2.0
#include "ops/dx/dx.h"

#include "cpu/tile_gemm.h"
#include "ops/push_rows.h"

namespace mok::ops {
namespace {

using cpu::kStep;
using cpu::kTile;

/// d_router_weights of each row, to its slot at the source rank.
void push_router_weight_gradients(const RankView& view, const program::Task& task) {
  for (std::int64_t r = 0; r < task.row_count; ++r) {
    const float* const partials = view.weight_partials + (task.ring_row + r) * view.dims.partials();
    float sum = 0.0f;
    for (std::int64_t j = 0; j < view.dims.partials(); ++j) sum = add(sum, partials[j]);
    const std::int64_t row = task.row_begin + r;
    std::byte* const peer = view.peers[view.tables.source_rank[row]];
    view.symmetric.weight_slots.at(peer)[view.tables.source_slot[row]] = sum;
  }
}

}  // namespace

void Dx::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  const bool shared = program::is_shared(task.op);
  const Activations rows = activations(view, shared, task.expert, task.macrobatch, task.ring_row);
  const std::int64_t hidden = view.dims.hidden;
  const std::int64_t intermediate = rows.intermediate;
  struct Product {
    const bfloat16* gradient;
    const bfloat16* weight;
  };
  const Product products[] = {{rows.d_gate, rows.weights->gate.of(rows.expert) + task.col_begin},
                              {rows.d_up, rows.weights->up.of(rows.expert) + task.col_begin}};
  buffer.clear(0);
  for (const Product& product : products) {
    for (std::int64_t k = 0; k < intermediate; k += kStep) {
      cpu::load_tile<kStep>(buffer.a, kTile, product.gradient + k, intermediate, task.row_count, kStep);
      cpu::load_tile<kTile>(buffer.b, kStep, product.weight + k * hidden, hidden, kStep, task.col_count);
      cpu::tile_gemm(buffer.acc[0], buffer.a, cpu::Layout::rows_by_step, buffer.b, cpu::Layout::step_by_rows);
    }
  }
  for (std::int64_t r = 0; r < task.row_count; ++r) {
    cpu::store_row(pushed_row(view, task, r), buffer.acc[0] + r * kTile, task.col_count);
  }
  if (!shared && task.col_begin == 0) push_router_weight_gradients(view, task);
}

static_assert(CpuOp<Dx>);

}  // namespace mok::ops
