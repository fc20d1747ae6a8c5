// SPDX-License-Identifier: Apache-2.0
#include "api/bind.h"

namespace mok::api {

std::shared_ptr<ContextState> make_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                                           const LayerShape& layer, ops::SwigluLimit limit, void* stream) {
  auto context = std::make_shared<ContextState>();
  context->workspace_id = workspace.id;
  context->schedule_id = schedule.id;
  context->layer = layer;
  context->limit = limit;
  context->layout = program::make_layout<program::ContextLayout>(workspace.dims(layer, 0));
  context->memory = workspace.backend->call_memory(CallMemory::context, workspace.options.ranks,
                                                   context->layout.bytes, stream);
  return context;
}

PassCall bind_pass(WorkspaceState& workspace, const ScheduleState& schedule, const ContextState& context,
                   program::Pass pass, const PassOptions& options) {
  LocalMemory& local = workspace.local(context.layer, options.stream);
  const program::LocalLayout& at = local.layout;
  PassCall call;
  call.pass = pass;
  call.local = &local;
  call.layer = context.layer;
  call.schedule = &schedule;
  call.context = &context;
  call.timeline = options.timeline == nullptr ? nullptr : &options.timeline->state();
  call.faults = workspace.faults;
  call.staged = options.staged;
  call.multiply_only = options.multiply_only;
  call.stream = options.stream;
  call.views.resize(static_cast<std::size_t>(workspace.options.ranks));
  for (int rank = 0; rank < workspace.options.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::byte* const base = local.ranks.of(rank);
    std::byte* const saved = context.memory.of(rank);
    ops::RankView& view = call.views[r];
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
  }
  return call;
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

}  // namespace mok::api
