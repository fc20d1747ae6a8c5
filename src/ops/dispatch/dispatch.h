// SPDX-License-Identifier: Apache-2.0
// dispatch: pulls rows from the symmetric memory of their source ranks into the ring, in expert-sorted order.
//
//   dispatch_x:     ring.x[row] = x of rank source_rank[row], token source_slot[row] / K
//   dispatch_grad:  the same for grad_output, and row_weights[row] = router_weights[source_slot[row]] there
//
// Rows move unscaled: the router weight enters after the GEMMs, so that nothing divides by it and any sign is
// right. Padding rows are stored as zeros on every pass: a weight gradient multiplies them, and 0 * NaN is
// NaN.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct Dispatch {
  static constexpr program::Op kOps[] = {program::Op::dispatch_x, program::Op::dispatch_grad};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
