// SPDX-License-Identifier: Apache-2.0
// The end of a pass: the last CTA of a rank tells the peers, waits for them, and leaves everything as the
// next pass wants to find it.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"
#include "cuda/pipeline/tiles.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/roles/rank_protocol.h"

namespace mok::cuda {

/// Barrier of the warpgroup that leaves; 0 is the CTA's.
inline constexpr int kExitBarrier = 1;

/// Ends the pass for this rank. One thread, after all CTAs of the rank have ended. True when its outputs hold
/// the result.
__device__ inline bool end_rank(const LaunchParams& params, const RankPlan& plan, const Cta& cta) {
  const ops::RankView& view = plan.view;
  const Waiter waiter{params, plan, cta.epoch, static_cast<std::int32_t>(program::Role::compute)};
  bool complete = !waiter.aborted();
  if (params.stage.is_last) {
    if (complete) raise_at_peers(view, view.symmetric.done, cta.epoch);
    if (view.dims.ranks > 1) {
      complete = complete && wait_for_flags(waiter, view.symmetric.done, WaitSubject{-2});
    }
    *plan.control.published = 0;
    *plan.control.counter_set ^= 1;
    *view.symmetric.epoch.at(view.peers[view.dims.rank]) = cta.epoch;
  }
  for (int role = 0; role < program::kNumRoles; ++role) plan.control.tickets[role] = 0;
  plan.control.arrivals[1] = 0;
  return complete && view.tables.header->refusal == program::Refusal::none;
}

/// NaN in every output of the rank: what nobody computed must not look like a result.
__device__ inline void poison_outputs(const ops::RankView& view) {
  if (view.out == nullptr) return;
  constexpr std::uint16_t kNaN = 0x7FFF;
  const std::int64_t count = view.tables.header->num_tokens * view.dims.hidden;
  for (std::int64_t i = threadIdx.x % kWarpgroup; i < count; i += kWarpgroup) view.out[i] = {kNaN};
}

/// One warpgroup of every CTA, when all roles of the CTA have ended.
__device__ inline void leave(const LaunchParams& params, const RankPlan& plan, Cta& cta) {
  const bool leads = threadIdx.x % kWarpgroup == 0;
  if (leads) {
    DeviceWord<std::uint32_t> ended(plan.control.arrivals[1]);
    const std::uint32_t before = ended.fetch_add(1, ::cuda::memory_order_acq_rel);
    cta.must_poison =
        before + 1 == static_cast<std::uint32_t>(params.ctas_per_rank) && !end_rank(params, plan, cta);
    std::uint32_t* const arrivals = params.plans[0].control.arrivals;
    DeviceWord<std::uint32_t> all_ended(arrivals[2]);
    const std::uint32_t all = static_cast<std::uint32_t>(params.ctas_per_rank * params.ranks);
    if (all_ended.fetch_add(1, ::cuda::memory_order_acq_rel) + 1 == all) {
      arrivals[0] = 0;
      arrivals[2] = 0;
    }
  }
  ptx::bar_sync(kExitBarrier, kWarpgroup);
  if (cta.must_poison) poison_outputs(plan.view);
}

}  // namespace mok::cuda
