// SPDX-License-Identifier: Apache-2.0
// dhidden: the backward of down, and through SwiGLU. w = the row's router weight; 1 for the shared expert.
//
//   dHraw = dO Wd                               f32 accumulation over H in steps of 64, never rounded
//   partial[j] = sum over 64 columns of dHraw * Hd, columns ascending      (summed over j by dx)
//   dG, dU = SwiGLU backward of w * dHraw        bf16
//   Hw = bf16(w * Hd)                            the operand of the gradient of Wd
//
// Padding rows are stored as zeros.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct DHidden {
  static constexpr program::Op kOps[] = {program::Op::dhidden, program::Op::shared_dhidden};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
