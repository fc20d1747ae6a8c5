// SPDX-License-Identifier: Apache-2.0
// The sums over a token's slots, k ascending, in f32.
//
//   weighted_sum:  out[t] = bf16(y_shared[t] + sum over k of w[t,k] * y[t,k])     fma from the bf16 y_shared
//   grad_sum:      d_x[t] = bf16(d_x_shared[t] + sum over k of dx_route[t,k]), and d_router_weights[t,k]
//
// Without a shared expert the sum starts from 0. A dropped route is left out by selection (its slot holds old
// data), never multiplied by zero; its d_router_weights is 0.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct SlotSum {
  static constexpr program::Op kOps[] = {program::Op::weighted_sum, program::Op::grad_sum};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
