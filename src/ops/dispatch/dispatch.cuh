// SPDX-License-Identifier: Apache-2.0
// dispatch on the GPU: where a row comes from. The copies are the dispatch role's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/pipeline/plan.h"
#include "ops/rank_view.h"

namespace mok::ops {

/// The token's row of x at its source rank, or null for padding.
__device__ __forceinline__ const std::byte* dispatch_source(const cuda::LaunchParams& params,
                                                            const RankView& view, std::int64_t row) {
  const std::int32_t rank = view.tables.source_rank[row];
  if (rank < 0) return nullptr;
  // Where all ranks are in this launch, their callers' tensors can be read in place. Otherwise a peer's x is
  // in its symmetric memory.
  const bfloat16* const x =
      params.ranks == view.dims.ranks ? params.plans[rank].view.x : view.symmetric.x.at(view.peers[rank]);
  const std::int64_t token = view.tables.source_slot[row] / view.dims.topk;
  return reinterpret_cast<const std::byte*>(x + token * view.dims.hidden);
}

}  // namespace mok::ops
