// SPDX-License-Identifier: Apache-2.0
// slot_sum on the GPU: the weighted sum of a group of tokens, by one warpgroup.
#pragma once

#include <cstdint>

#include "cuda/pipeline/chunk_writer.h"
#include "cuda/pipeline/tiles.h"
#include "ops/arith.h"
#include "ops/rank_view.h"
#include "program/task.h"

namespace mok::ops {

/// Eight bf16, loaded at once.
struct alignas(16) Eight {
  std::uint32_t pair[4];
};

__device__ __forceinline__ float low_float(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
}

/// Coherent (peers have written it during this kernel) and not kept: slots are read once.
__device__ __forceinline__ Eight load_eight(const bfloat16* from) {
  Eight value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.pair[0]), "=r"(value.pair[1]), "=r"(value.pair[2]), "=r"(value.pair[3])
               : "l"(from)
               : "memory");
  return value;
}

/// Eight columns of one token: sum over k ascending, from the shared expert's value or 0.
__device__ __forceinline__ Eight weighted_eight(const RankView& view, std::int64_t token, std::int64_t col,
                                                const bfloat16* slots) {
  float sum[8] = {};
  const std::int32_t topk = view.dims.topk;
  if (view.dims.shared_intermediate > 0) {
    const Eight shared = load_eight(view.shared_out + token * view.dims.hidden + col);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[2 * i] = low_float(shared.pair[i]);
      sum[2 * i + 1] = high_float(shared.pair[i]);
    }
  }
  constexpr int kAtOnce = 8;  // loads in flight
  for (std::int32_t first = 0; first < topk; first += kAtOnce) {
    Eight values[kAtOnce];
    float weights[kAtOnce];
    bool kept[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int32_t k = first + i;
      // A dropped route is left out: its slot holds old data.
      kept[i] = k < topk && view.tables.topk_experts[token * topk + k] >= 0;
      if (!kept[i]) continue;
      weights[i] = view.router_weights[token * topk + k];
      values[i] = load_eight(slots + (token * topk + k) * view.dims.hidden + col);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!kept[i]) continue;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        sum[2 * p] = fma(weights[i], low_float(values[i].pair[p]), sum[2 * p]);
        sum[2 * p + 1] = fma(weights[i], high_float(values[i].pair[p]), sum[2 * p + 1]);
      }
    }
  }
  Eight result;
#pragma unroll
  for (int p = 0; p < 4; ++p) result.pair[p] = cuda::pack(sum[2 * p], sum[2 * p + 1]);
  return result;
}

/// Tokens part, part + parts, ... of the task's group.
__device__ __forceinline__ void weighted_sum(const RankView& view, const program::Task& task, int part,
                                             int parts) {
  const std::int32_t* const order = view.tables.token_order[program::sum_table(view.pass)];
  const bfloat16* const slots = view.symmetric.slots.at(view.peers[view.dims.rank]);
  const std::int64_t hidden = view.dims.hidden;
  for (std::int64_t i = part; i < task.row_count; i += parts) {
    const std::int64_t token = order[task.row_begin + i];
    for (std::int64_t col = threadIdx.x % cuda::kWarpgroup * 8; col < hidden; col += cuda::kWarpgroup * 8) {
      *reinterpret_cast<Eight*>(view.out + token * hidden + col) = weighted_eight(view, token, col, slots);
    }
  }
}

}  // namespace mok::ops
