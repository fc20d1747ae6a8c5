// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/format.h>

#include <mok/error.h>
#include <mok/layer.h>

#include "api/bind.h"
#include "api/state.h"
#include "api/validate.h"
#include "cpu/schedule_pass.h"

namespace mok {
namespace {

using api::ScheduleState;
using api::WorkspaceState;

std::vector<std::int64_t> check_ids(const WorkspaceState& workspace,
                                    std::span<const ConstTensorView> topk_experts) {
  api::check_entry_count("topk_experts", topk_experts.size(), workspace.options);
  std::vector<std::int64_t> tokens;
  for (std::size_t rank = 0; rank < topk_experts.size(); ++rank) {
    const ConstTensorView& ids = topk_experts[rank];
    const std::string name = fmt::format("topk_experts[{}]", rank);
    const DType dtype = ids.dtype == DType::i64 ? DType::i64 : DType::i32;
    if (ids.defined() && ids.dtype != dtype) {
      throw InvalidArgument(
          fmt::format("{} is {}; it must be int32 or int64", name, api::name_of(ids.dtype)));
    }
    const std::int64_t count = ids.dims == 2 ? ids.shape[0] : 0;
    api::check_tensor(name, ids, {dtype, {{"T", count}, {"K", workspace.options.topk}}});
    if (count > workspace.options.max_tokens) {
      throw InvalidArgument(fmt::format(
          "{} has {} tokens; it must have at most {}, the max_tokens that the workspace was made for", name,
          count, workspace.options.max_tokens));
    }
    tokens.push_back(count);
  }
  return tokens;
}

Status status_of(const ScheduleState& schedule, std::uint64_t epoch) {
  const program::ScheduleHeader& header = schedule.header(0);
  const program::Dims& dims = schedule.dims[0];
  Status status;
  status.rank = header.refusal_rank;
  status.epoch = epoch;
  if (header.refusal == program::Refusal::capacity_overflow) {
    status.kind = StatusKind::capacity_overflow;
    status.expert = header.refusal_expert;
    status.rows = header.refusal_rows;
    status.capacity = dims.routed_capacity;
    const std::int64_t factor = program::ceil_div(header.refusal_rows, dims.slots());
    status.multiplier = static_cast<double>(factor) / dims.ranks;
  }
  if (header.refusal == program::Refusal::expert_id_out_of_range) {
    status.kind = StatusKind::expert_id_out_of_range;
    status.token = header.refusal_token;
    status.choice = header.refusal_choice;
    status.expert_id = header.refusal_expert;
    status.num_experts = schedule.num_experts;
  }
  return status;
}

std::size_t rank_index(const ScheduleState& schedule, int rank) {
  const auto ranks = static_cast<int>(schedule.tables.size());
  if (rank < 0 || rank >= ranks) {
    throw InvalidArgument(fmt::format("rank is {}; it must be from 0 to {}", rank, ranks - 1));
  }
  return static_cast<std::size_t>(rank);
}

}  // namespace

const ScheduleState& Schedule::state() const { return api::owned(state_, "schedule"); }

std::span<const std::int32_t> Schedule::rows_per_expert(int rank) const {
  const std::size_t r = rank_index(state(), rank);
  return {state_->tables[r].rows_per_expert, static_cast<std::size_t>(state_->dims[r].local_experts())};
}

std::span<const std::int32_t> Schedule::source_rank(int rank) const {
  const std::size_t r = rank_index(state(), rank);
  return {state_->tables[r].source_rank, static_cast<std::size_t>(state_->dims[r].capacity_rows())};
}

std::span<const std::int32_t> Schedule::source_slot(int rank) const {
  const std::size_t r = rank_index(state(), rank);
  return {state_->tables[r].source_slot, static_cast<std::size_t>(state_->dims[r].capacity_rows())};
}

Schedule build_schedule(Workspace& workspace, std::span<const ConstTensorView> topk_experts,
                        int num_experts) {
  WorkspaceState& state = workspace.state();
  const api::InUse guard(state, "build_schedule");
  api::check_usable(state);
  const std::vector<std::int64_t> tokens = check_ids(state, topk_experts);
  LayerShape layer{num_experts, 64, 0};  // widths do not enter a schedule; any legal one will do
  api::check_layer(layer, state.options);

  auto schedule = std::make_shared<ScheduleState>();
  schedule->workspace_id = state.id;
  schedule->id = api::next_id();
  schedule->num_experts = num_experts;
  cpu::Launch launch;
  launch.settings = api::settings_of(state, program::Pass::forward);
  std::vector<cpu::RoutingLaunch> routing;
  for (int rank = 0; rank < state.options.ranks; ++rank) {
    const program::Dims dims = state.dims(layer, rank);
    const auto layout = program::make_layout<program::ScheduleLayout>(dims);
    schedule->dims.push_back(dims);
    schedule->memory.emplace_back(layout.bytes, "the schedule of a rank");
    std::byte* const base = schedule->memory.back().data();
    schedule->tables.push_back(layout.tables(base, dims));
    cpu::RankLaunch mine;
    mine.view.dims = dims;
    mine.view.tables = schedule->tables.back();
    mine.view.symmetric = state.symmetric_layout;
    mine.view.peers = state.symmetric.peers();
    launch.ranks.push_back(mine);
    const ConstTensorView& ids = topk_experts[static_cast<std::size_t>(rank)];
    routing.push_back({ids.data, ids.dtype == DType::i64, tokens[static_cast<std::size_t>(rank)],
                       layout.gathered.at(base), layout.histogram.at(base), layout.expert_tile.at(base)});
  }
  launch.epoch = ++state.epoch;
  if (const std::optional<cpu::WaitFailure> failure = cpu::run_schedule(launch, routing)) {
    api::record_failure(state, *failure);
    throw DeadlineExceeded(state.status.sentence());
  }
  state.status = status_of(*schedule, state.epoch);
  return Schedule(std::move(schedule));
}

}  // namespace mok
