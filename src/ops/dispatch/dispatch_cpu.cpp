// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch/dispatch.h"

#include <algorithm>
#include <cstring>

namespace mok::ops {

void Dispatch::run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& /*buffer*/) {
  const bool is_grad = task.op == program::Op::dispatch_grad;
  const std::int64_t hidden = view.dims.hidden;
  const program::Field<bfloat16>& source = is_grad ? view.symmetric.grad_output : view.symmetric.x;
  bfloat16* const ring = is_grad ? view.grad_rows : view.rows(task.macrobatch).x;
  for (std::int64_t r = 0; r < task.padded_rows; ++r) {
    bfloat16* const to = ring + (task.ring_row + r) * hidden;
    if (r >= task.row_count) {
      std::fill_n(to, hidden, bfloat16{});
      if (is_grad) view.row_weights[task.ring_row + r] = 0.0f;
      continue;
    }
    const std::int32_t rank = view.tables.source_rank[task.row_begin + r];
    const std::int64_t slot = view.tables.source_slot[task.row_begin + r];
    const std::byte* const peer = view.peers[rank];
    std::memcpy(to, source.at(peer) + slot / view.dims.topk * hidden,
                static_cast<std::size_t>(hidden) * sizeof(bfloat16));
    if (is_grad) view.row_weights[task.ring_row + r] = view.symmetric.router_weights.at(peer)[slot];
  }
}

static_assert(CpuOp<Dispatch>);

}  // namespace mok::ops
