// SPDX-License-Identifier: Apache-2.0
#include "cpu/schedule_pass.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "cpu/rank_protocol.h"
#include "cpu/thread_team.h"
#include "cpu/waiter.h"
#include "program/schedule.h"

namespace mok::cpu {
namespace {

/// Ids outside int32 are out of any expert's range: they stay so as int32's lowest value.
std::int32_t narrow(std::int64_t id) {
  const bool fits =
      id >= std::numeric_limits<std::int32_t>::min() && id <= std::numeric_limits<std::int32_t>::max();
  return fits ? static_cast<std::int32_t>(id) : std::numeric_limits<std::int32_t>::min();
}

void stage_ids(const ops::RankView& view, const RoutingLaunch& routing) {
  std::int32_t* const staged = view.symmetric.topk_experts.at(view.peers[view.dims.rank]);
  const std::int64_t ids = routing.num_tokens * view.dims.topk;
  for (std::int64_t i = 0; i < ids; ++i) {
    staged[i] = routing.is_int64 ? narrow(static_cast<const std::int64_t*>(routing.topk_experts)[i])
                                 : static_cast<const std::int32_t*>(routing.topk_experts)[i];
  }
  std::fill(staged + ids, staged + view.dims.slots(), -1);
}

void run_rank(const Launch& launch, int rank, const RoutingLaunch& routing, FailureBox& failures) {
  const ops::RankView& view = launch.ranks[static_cast<std::size_t>(rank)].view;
  Waiter waiter(launch, failures, rank, program::Role::communication, 0);
  stage_ids(view, routing);
  publish_ready(launch, rank);
  if (!wait_for_peers(launch, rank, waiter)) return;
  for (int peer = 0; peer < view.dims.ranks; ++peer) {
    std::copy_n(view.symmetric.topk_experts.at(view.peers[peer]), view.dims.slots(),
                routing.gathered + peer * view.dims.slots());
  }
  program::build_schedule(
      view.dims, {routing.gathered, routing.num_tokens, routing.histogram, routing.expert_tile}, view.tables);
  leave_pass(launch, rank, waiter);
}

}  // namespace

std::optional<WaitFailure> run_schedule(const Launch& launch, std::span<const RoutingLaunch> routing) {
  FailureBox failures;
  std::vector<std::function<void()>> ranks;
  for (std::size_t rank = 0; rank < routing.size(); ++rank) {
    ranks.emplace_back([&launch, &failures, rank, &mine = routing[rank]] {
      run_rank(launch, static_cast<int>(rank), mine, failures);
    });
  }
  run_together(ranks);
  return failures.first();
}

}  // namespace mok::cpu
