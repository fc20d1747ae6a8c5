// SPDX-License-Identifier: Apache-2.0
// weight_grad: gradients of the weights, over an expert's rows in row order.
//
//   dWg = dG^T x, dWu = dU^T x, dWd = dO^T Hw      f32 over the rows in steps of 64, rounded once at the end
//
// The rows of an expert may be cut by macrobatch boundaries into segments: the accumulator of a segment that
// is not the last is carried in f32, so that the cut changes no bit. The last segment rounds to bf16, or adds
// once to an f32 main_grad. An expert with no rows gets exact zeros, or leaves main_grad alone. The shared
// expert's rows are tokens.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct WeightGrad {
  static constexpr program::Op kOps[] = {program::Op::weight_grad, program::Op::shared_weight_grad};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
