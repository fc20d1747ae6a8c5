// SPDX-License-Identifier: Apache-2.0
// down: the second GEMM and, for routed experts, combine.
//
//   y = bf16(Hd Wd^T)      f32 accumulation over I in steps of 64
//
// A routed row goes unweighted straight to slot t*K+k of its source rank: every slot has one writer. The
// shared expert's rows go to this rank's shared output.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct Down {
  static constexpr program::Op kOps[] = {program::Op::down, program::Op::shared_down};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
