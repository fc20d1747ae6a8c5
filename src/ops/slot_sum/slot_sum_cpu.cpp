// SPDX-License-Identifier: Apache-2.0
#include "ops/slot_sum/slot_sum.h"

#include <algorithm>

#include "cpu/tile_buffer.h"
#include "ops/arith.h"

namespace mok::ops {
namespace {

/// Columns summed at a time, in registers or first-level cache.
constexpr std::int64_t kChunk = 512;

void sum_token(const RankView& view, std::int64_t token, bool weighted) {
  const std::int64_t hidden = view.dims.hidden;
  const std::int32_t topk = view.dims.topk;
  const std::int32_t* const ids = view.tables.topk_experts + token * topk;
  const bfloat16* const slots = view.symmetric.slots.at(view.peers[view.dims.rank]) + token * topk * hidden;
  const bool has_shared = view.dims.shared_intermediate > 0;
  float sum[kChunk];
  for (std::int64_t begin = 0; begin < hidden; begin += kChunk) {
    const std::int64_t cols = std::min(kChunk, hidden - begin);
    if (has_shared) {
      const bfloat16* const shared = view.shared_out + token * hidden + begin;
      for (std::int64_t c = 0; c < cols; ++c) sum[c] = to_float(shared[c]);
    } else {
      std::fill_n(sum, cols, 0.0f);
    }
    for (std::int32_t k = 0; k < topk; ++k) {
      if (ids[k] < 0) continue;
      const bfloat16* const slot = slots + k * hidden + begin;
      if (weighted) {
        const float weight = view.router_weights[token * topk + k];
        for (std::int64_t c = 0; c < cols; ++c) sum[c] = fma(weight, to_float(slot[c]), sum[c]);
      } else {
        for (std::int64_t c = 0; c < cols; ++c) sum[c] = add(sum[c], to_float(slot[c]));
      }
    }
    cpu::store_row(view.out + token * hidden + begin, sum, cols);
  }
}

}  // namespace

void SlotSum::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& /*buffer*/) {
  const bool weighted = task.op == program::Op::weighted_sum;
  const std::int32_t topk = view.dims.topk;
  const std::int32_t* const order = view.tables.token_order[program::sum_table(view.pass)];
  for (std::int64_t i = task.row_begin; i < task.row_begin + task.row_count; ++i) {
    const std::int64_t token = order[i];
    sum_token(view, token, weighted);
    if (weighted) continue;
    const float* const slots = view.symmetric.weight_slots.at(view.peers[view.dims.rank]) + token * topk;
    for (std::int32_t k = 0; k < topk; ++k) {
      const bool dropped = view.tables.topk_experts[token * topk + k] < 0;
      view.d_router_weights[token * topk + k] = dropped ? 0.0f : slots[k];
    }
  }
}

static_assert(CpuOp<SlotSum>);

}  // namespace mok::ops
