// SPDX-License-Identifier: Apache-2.0
// dx: the gradient of x per route, and of router_weights.
//
//   dx_route = bf16(dG Wg + dU Wu)        one f32 accumulator, the gate part first, each over I in steps of
//   64 d_w = partials of dhidden summed in ascending order      f32; by the task with the first columns
//
// A routed row goes to slot t*K+k of its source rank, the shared expert's to this rank's shared output.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct Dx {
  static constexpr program::Op kOps[] = {program::Op::dx, program::Op::shared_dx};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
