// SPDX-License-Identifier: Apache-2.0
// The start of a pass on a CTA: which rank and role it takes, and what it reads of the rank's state.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"
#include "cuda/pipeline/flags.h"
#include "cuda/roles/rank_protocol.h"

namespace mok::cuda {

/// CTAs take places in the order in which they begin to run, so that the first of every rank are running
/// whatever order the hardware starts them in. The first dispatches and the second computes; then follow the
/// other dispatchers.
__device__ inline program::Role role_of(std::int32_t index, std::int32_t comm_ctas) {
  const bool dispatches = index == 0 || (index >= 2 && index <= comm_ctas);
  return dispatches ? program::Role::communication : program::Role::compute;
}

/// Fills in `cta`; thread 0 of the CTA, before a barrier.
__device__ inline void enter(const LaunchParams& params, Cta& cta) {
  DeviceWord<std::uint32_t> begun(params.plans[0].control.arrivals[0]);
  const auto place = static_cast<std::int32_t>(begun.fetch_add(1, ::cuda::memory_order_relaxed));
  cta.rank = place % params.ranks;
  cta.index = place / params.ranks;
  cta.role = role_of(cta.index, params.comm_ctas);
  const RankPlan& plan = params.plans[cta.rank];
  const ops::RankView& view = plan.view;
  cta.epoch = *view.symmetric.epoch.at(view.peers[view.dims.rank]) + 1;
  const std::int64_t set_size = program::CounterLayout::make(view.dims).size();
  cta.counters = plan.control.counters + *plan.control.counter_set * set_size;
  for (int role = 0; role < program::kNumRoles; ++role) {
    cta.tasks[role] = program::num_tasks(view.dims, view.tables, view.pass, static_cast<program::Role>(role));
  }
  // The waits inside a CTA end with those on global memory, each of which may last a whole deadline.
  const std::uint64_t longest = program::max(params.arrival_deadline_ns, params.progress_deadline_ns);
  const bool endless = params.arrival_deadline_ns == 0 || params.progress_deadline_ns == 0;
  cta.guard.limit_ns = endless ? 0 : 4 * longest;
  cta.guard.broken = 0;
  if (cta.index == 0 && params.stage.is_first && cta.rank != params.never_ready_rank) {
    raise_at_peers(view, view.symmetric.ready, cta.epoch);
  }
}

}  // namespace mok::cuda
