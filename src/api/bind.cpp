// SPDX-License-Identifier: Apache-2.0
#include "api/bind.h"

#include <algorithm>
#include <thread>

#include <mok/error.h>

#include "cpu/executor.h"

namespace mok::api {

std::shared_ptr<ContextState> make_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                                           const LayerShape& layer, ops::SwigluLimit limit) {
  auto context = std::make_shared<ContextState>();
  context->workspace_id = workspace.id;
  context->schedule_id = schedule.id;
  context->layer = layer;
  context->limit = limit;
  context->layout = program::make_layout<program::ContextLayout>(workspace.dims(layer, 0));
  for (int rank = 0; rank < workspace.options.ranks; ++rank) {
    context->memory.emplace_back(context->layout.bytes, "the forward context of a rank");
  }
  return context;
}

cpu::Settings settings_of(const WorkspaceState& workspace, program::Pass pass) {
  const Config& config = workspace.config;
  cpu::Settings settings;
  const bool backward = pass == program::Pass::backward;
  settings.workers[static_cast<int>(program::Role::communication)] =
      (backward ? config.bwd_num_comm_sms : config.fwd_num_comm_sms).value_or(1);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = std::max(1, cores / workspace.options.ranks);
  settings.workers[static_cast<int>(program::Role::compute)] =
      config.cpu.num_compute_workers > 0 ? config.cpu.num_compute_workers : share;
  settings.arrival_deadline_seconds = config.arrival_deadline_seconds;
  settings.progress_deadline_seconds = config.progress_deadline_seconds;
  settings.timing_seed = config.cpu.timing_seed;
  settings.faults = workspace.faults;
  return settings;
}

cpu::Launch bind_pass(WorkspaceState& workspace, const ScheduleState& schedule, const ContextState& context,
                      program::Pass pass) {
  LocalMemory& local = workspace.local(context.layer);
  const program::LocalLayout& at = local.layout;
  cpu::Launch launch;
  launch.pass = pass;
  launch.settings = settings_of(workspace, pass);
  for (int rank = 0; rank < workspace.options.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::byte* const base = local.ranks[r].data();
    std::byte* const saved = context.memory[r].data();
    cpu::RankLaunch mine;
    ops::RankView& view = mine.view;
    view.dims = workspace.dims(context.layer, rank);
    view.pass = pass;
    view.tables = schedule.tables[r];
    view.limit = context.limit;
    view.symmetric = workspace.symmetric_layout;
    view.peers = workspace.symmetric.peers();
    view.saved = {context.layout.x.at(saved), context.layout.gate.at(saved), context.layout.up.at(saved)};
    view.shared_gate = context.layout.shared_gate.at(saved);
    view.shared_up = context.layout.shared_up.at(saved);
    view.replay = {at.replay_x.at(base), at.replay_gate.at(base), at.replay_up.at(base)};
    view.hidden = at.hidden.at(base);
    view.grad_rows = at.grad_rows.at(base);
    view.row_weights = at.row_weights.at(base);
    view.d_gate = at.d_gate.at(base);
    view.d_up = at.d_up.at(base);
    view.weight_partials = at.weight_partials.at(base);
    view.carry = at.carry.at(base);
    view.shared_hidden = at.shared_hidden.at(base);
    view.shared_d_gate = at.shared_d_gate.at(base);
    view.shared_d_up = at.shared_d_up.at(base);
    view.shared_out = at.shared_out.at(base);
    const std::int64_t set_size = program::CounterLayout::make(view.dims).size();
    std::uint32_t* const counters = at.counters.at(base);
    mine.control.counters = counters + local.counter_set * set_size;
    mine.control.spare_counters = counters + (1 - local.counter_set) * set_size;
    mine.control.tickets = at.tickets.at(base);
    mine.control.published = at.watermark.at(base);
    launch.ranks.push_back(mine);
  }
  return launch;
}

ops::Weights bind_weights(const ExpertWeights& weights) {
  const auto bind = [](const ConstTensorView& tensor) -> ops::WeightView {
    return {static_cast<const bfloat16*>(tensor.data), tensor.stride[0]};
  };
  return {bind(weights.gate), bind(weights.up), bind(weights.down)};
}

ops::Gradients bind_gradients(const WeightGradients& gradients) {
  const auto bind = [](const TensorView& tensor) -> ops::GradientView {
    return {tensor.data, tensor.stride[0], tensor.dtype == DType::f32};
  };
  return {bind(gradients.gate), bind(gradients.up), bind(gradients.down)};
}

void check_usable(const WorkspaceState& workspace) {
  if (workspace.status.kind == StatusKind::deadline_exceeded) {
    throw DeadlineExceeded("an earlier pass on this workspace failed and reset() was not called: " +
                           workspace.status.sentence());
  }
}

void record_failure(WorkspaceState& workspace, const cpu::WaitFailure& failure) {
  Status status;
  status.kind = StatusKind::deadline_exceeded;
  status.rank = failure.rank;
  status.epoch = workspace.epoch;
  status.worker = failure.worker;
  status.role = failure.role;
  status.op = failure.op;
  status.tile = failure.tile;
  status.counter = failure.counter;
  status.expected = failure.expected;
  status.seen = failure.seen;
  status.seconds = failure.seconds;
  workspace.status = status;
}

void run_pass(WorkspaceState& workspace, LocalMemory& local, cpu::Launch& launch, bool staged,
              const std::function<void()>& on_failure) {
  launch.epoch = ++workspace.epoch;
  if (staged) {
    cpu::run_staged(launch);
    return;
  }
  const std::optional<cpu::WaitFailure> failure = cpu::run_fused(launch);
  local.counter_set = 1 - local.counter_set;
  if (!failure) return;
  record_failure(workspace, *failure);
  on_failure();
  throw DeadlineExceeded(workspace.status.sentence());
}

}  // namespace mok::api
