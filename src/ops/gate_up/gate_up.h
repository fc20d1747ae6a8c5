// SPDX-License-Identifier: Apache-2.0
// gate_up: the first GEMM pair and SwiGLU, of routed and shared experts.
//
//   G = bf16(x Wg^T), U = bf16(x Wu^T)          f32 accumulation over H in steps of 64
//   Hd = bf16(silu(G') * U')                     forward only; backward derives it anew from G and U
//
// Padding rows are stored as zeros.
#pragma once

#include "ops/cpu_op.h"

namespace mok::ops {

struct GateUp {
  static constexpr program::Op kOps[] = {program::Op::gate_up, program::Op::shared_gate_up};
  static void run_cpu(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer);
};

}  // namespace mok::ops
