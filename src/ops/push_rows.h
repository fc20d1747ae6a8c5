// SPDX-License-Identifier: Apache-2.0
// The epilogue of down and dx: rounds an accumulator's rows and stores each where its reader wants it.
#pragma once

#include "ops/rank_view.h"
#include "program/task.h"

namespace mok::ops {

/// Where columns [task.col_begin, ...) of row r of a task's tile belong: the slot of the route at its source
/// rank, or the row of the token in the shared output.
MOK_HOST_DEVICE inline bfloat16* pushed_row(const RankView& view, const program::Task& task, std::int64_t r) {
  const std::int64_t row = task.row_begin + r;
  if (program::is_shared(task.op)) return view.shared_out + row * view.dims.hidden + task.col_begin;
  std::byte* const peer = view.peers[view.tables.source_rank[row]];
  return view.symmetric.slots.at(peer) + view.tables.source_slot[row] * view.dims.hidden + task.col_begin;
}

}  // namespace mok::ops
