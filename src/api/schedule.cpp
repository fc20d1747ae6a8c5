// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include <mok/layer.h>

#include "api/backend.h"
#include "api/refuse.h"
#include "api/state.h"
#include "api/validate.h"

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
    const api::TensorName name{"topk_experts", rank};
    const DType dtype = ids.dtype == DType::i64 ? DType::i64 : DType::i32;
    if (ids.defined() && ids.dtype != dtype) {
      api::refuse("{} is {}; it must be int32 or int64", name.text(), api::name_of(ids.dtype));
    }
    const std::int64_t count = ids.dims == 2 ? ids.shape[0] : 0;
    api::check_tensor(workspace, name, ids, {dtype, {{"T", count}, {"K", workspace.options.topk}}});
    if (count > workspace.options.max_tokens) {
      api::refuse("{} has {} tokens; it must have at most {}, the max_tokens that the workspace was made for",
                  name.text(), count, workspace.options.max_tokens);
    }
    tokens.push_back(count);
  }
  return tokens;
}

/// A table of a rank as the host can read it.
std::span<const std::int32_t> table(const ScheduleState& schedule, int rank,
                                    program::Field<std::int32_t> program::ScheduleLayout::*which) {
  const int ranks = schedule.memory.ranks();
  if (rank < 0 || rank >= ranks) api::refuse("rank is {}; it must be from 0 to {}", rank, ranks - 1);
  const program::Field<std::int32_t>& field = schedule.layout.*which;
  return {field.at(schedule.memory.on_host(rank)), static_cast<std::size_t>(field.count)};
}

}  // namespace

const ScheduleState& Schedule::state() const { return api::owned(state_, "schedule"); }

std::span<const std::int32_t> Schedule::rows_per_expert(int rank) const {
  return table(state(), rank, &program::ScheduleLayout::rows_per_expert);
}

std::span<const std::int32_t> Schedule::source_rank(int rank) const {
  return table(state(), rank, &program::ScheduleLayout::source_rank);
}

std::span<const std::int32_t> Schedule::source_slot(int rank) const {
  return table(state(), rank, &program::ScheduleLayout::source_slot);
}

Schedule build_schedule(Workspace& workspace, std::span<const ConstTensorView> topk_experts, int num_experts,
                        const ScheduleOptions& options) {
  WorkspaceState& state = workspace.state();
  const api::InUse guard(state, "build_schedule");
  state.backend->check_usable();
  auto schedule = std::make_shared<ScheduleState>();
  schedule->tokens = check_ids(state, topk_experts);
  LayerShape layer{num_experts, 64, 0};  // widths do not enter a schedule; any legal one will do
  api::check_layer(layer, state.options);

  schedule->workspace_id = state.id;
  schedule->id = api::next_id();
  schedule->num_experts = num_experts;
  const program::Dims dims = state.dims(layer, 0);
  schedule->layout = program::make_layout<program::ScheduleLayout>(dims);
  schedule->memory = state.backend->call_memory(
      api::CallMemory::schedule, state.options.ranks,
      schedule->layout.bytes + api::schedule_scratch_bytes(state.options.device, dims), options.stream);
  api::ScheduleCall call;
  call.schedule = schedule.get();
  call.faults = state.faults;
  call.stream = options.stream;
  for (int rank = 0; rank < state.options.ranks; ++rank) {
    ops::RankView view;
    view.dims = state.dims(layer, rank);
    view.tables = schedule->layout.tables(schedule->memory.of(rank), view.dims);
    view.symmetric = state.symmetric_layout;
    view.peers = state.symmetric.peers();
    schedule->dims.push_back(view.dims);
    schedule->tables.push_back(view.tables);
    call.views.push_back(view);
    const ConstTensorView& ids = topk_experts[static_cast<std::size_t>(rank)];
    call.ids.push_back({ids.data, ids.dtype == DType::i64, schedule->num_tokens(rank)});
  }
  state.backend->build_schedule(call);
  return Schedule(std::move(schedule));
}

}  // namespace mok
