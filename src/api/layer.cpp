// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include <mok/error.h>
#include <mok/layer.h>

#include "api/bind.h"
#include "api/overlap.h"
#include "api/state.h"
#include "api/validate.h"

namespace mok {
namespace {

using api::ContextState;
using api::ScheduleState;
using api::WorkspaceState;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Every element of a tensor with strided experts, NaN.
void poison(const TensorView& tensor) {
  if (!tensor.defined()) return;
  const bool per_expert = tensor.dims == 3;
  const std::int64_t experts = per_expert ? tensor.shape[0] : 1;
  const std::int64_t elements =
      per_expert ? tensor.shape[1] * tensor.shape[2] : tensor.shape[0] * tensor.shape[1];
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int64_t offset = per_expert ? e * tensor.stride[0] : 0;
    if (tensor.dtype == DType::f32) {
      std::fill_n(static_cast<float*>(tensor.data) + offset, elements, kNaN);
    } else {
      std::fill_n(static_cast<bfloat16*>(tensor.data) + offset, elements, to_bfloat16(kNaN));
    }
  }
}

void poison(const WeightGradients& gradients, api::MainGrads main_grads) {
  for (const TensorView* tensor : {&gradients.gate, &gradients.up, &gradients.down}) {
    if (tensor->dtype == DType::bf16 || main_grads == api::MainGrads::poison) poison(*tensor);
  }
}

template <class Input>
std::vector<api::WeightSet> weight_sets(std::span<const Input> inputs) {
  std::vector<api::WeightSet> sets;
  for (const Input& input : inputs) sets.push_back({&input.routed, &input.shared});
  return sets;
}

/// What forward and recompute have in common.
template <class Input>
void check_forward_inputs(const WorkspaceState& workspace, const ScheduleState& schedule,
                          std::span<const Input> inputs) {
  api::check_entry_count("inputs", inputs.size(), workspace.options);
  api::check_schedule(workspace, schedule);
  const api::Dim hidden{"H", workspace.options.hidden_size};
  for (int rank = 0; rank < workspace.options.ranks; ++rank) {
    api::check_rows(workspace, schedule, rank, "x", inputs[static_cast<std::size_t>(rank)].x, DType::bf16,
                    hidden);
  }
}

api::TensorName input_name(std::size_t rank, const char* group = nullptr) { return {"inputs", rank, group}; }

/// What every pass reads of a rank.
template <class Input>
void add_inputs(const Input& input, std::size_t rank, api::Footprints& memory) {
  memory.add_input(input_name(rank).of("x"), input.x);
  memory.add_inputs(input_name(rank, "routed"), input.routed);
  memory.add_inputs(input_name(rank, "shared"), input.shared);
}

void check_overlap(std::span<const ForwardInput> inputs) {
  api::Footprints memory;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const api::TensorName name = input_name(rank);
    add_inputs(inputs[rank], rank, memory);
    memory.add_input(name.of("router_weights"), inputs[rank].router_weights);
    memory.add_output(name.of("out"), inputs[rank].out);
  }
  memory.check();
}

void check_overlap(std::span<const BackwardInput> inputs) {
  api::Footprints memory;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const BackwardInput& input = inputs[rank];
    const api::TensorName name = input_name(rank);
    add_inputs(input, rank, memory);
    memory.add_input(name.of("grad_output"), input.grad_output);
    memory.add_input(name.of("router_weights"), input.router_weights);
    memory.add_output(name.of("d_x"), input.d_x);
    memory.add_output(name.of("d_router_weights"), input.d_router_weights);
    memory.add_outputs(input_name(rank, "d_routed"), input.d_routed);
    memory.add_outputs(input_name(rank, "d_shared"), input.d_shared);
  }
  memory.check();
}

/// What backward alone brings.
void check_backward_input(const WorkspaceState& workspace, const ScheduleState& schedule, std::size_t index,
                          const BackwardInput& input, const LayerShape& layer) {
  const api::Dim hidden{"H", workspace.options.hidden_size};
  const api::Dim topk{"K", workspace.options.topk};
  const int rank = static_cast<int>(index);
  api::check_rows(workspace, schedule, rank, "grad_output", input.grad_output, DType::bf16, hidden);
  api::check_rows(workspace, schedule, rank, "router_weights", input.router_weights, DType::f32, topk);
  api::check_rows(workspace, schedule, rank, "d_x", input.d_x, DType::bf16, hidden, true);
  api::check_rows(workspace, schedule, rank, "d_router_weights", input.d_router_weights, DType::f32, topk,
                  true);
  api::check_gradients(workspace, input_name(index, "d_routed"), input.d_routed, layer, false);
  if (layer.shared_intermediate_size > 0) {
    api::check_gradients(workspace, input_name(index, "d_shared"), input.d_shared, layer, true);
  } else {
    api::check_no_gradients(input_name(index, "d_shared"), input.d_shared);
  }
}

template <class Input>
void bind_forward(const Input& input, ops::RankView& view) {
  view.x = static_cast<const bfloat16*>(input.x.data);
  view.routed = api::bind_weights(input.routed);
  view.shared = api::bind_weights(input.shared);
}

}  // namespace

const ContextState& ForwardContext::state() const { return api::owned(state_, "context"); }

std::int64_t ForwardContext::nbytes() const { return state().memory.bytes(); }

ForwardContext forward(Workspace& workspace, const Schedule& schedule, std::span<const ForwardInput> inputs,
                       const PassOptions& options) {
  WorkspaceState& state = workspace.state();
  const api::InUse guard(state, "forward");
  state.backend->check_usable();
  check_forward_inputs(state, schedule.state(), inputs);
  const api::Dim hidden{"H", state.options.hidden_size};
  const api::Dim topk{"K", state.options.topk};
  for (int rank = 0; rank < state.options.ranks; ++rank) {
    const ForwardInput& input = inputs[static_cast<std::size_t>(rank)];
    api::check_rows(state, schedule.state(), rank, "router_weights", input.router_weights, DType::f32, topk);
    api::check_rows(state, schedule.state(), rank, "out", input.out, DType::bf16, hidden, true);
  }
  const LayerShape layer = api::check_weights(state, schedule.state(), weight_sets(inputs), true);
  check_overlap(inputs);
  api::check_pass(state, program::Pass::forward, options);
  const std::shared_ptr<ContextState> context = api::make_context(
      state, schedule.state(), layer, api::swiglu_limit(state.config, options), options.stream);

  api::PassCall call = api::bind_pass(state, schedule.state(), *context, program::Pass::forward, options);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    ops::RankView& view = call.views[rank];
    bind_forward(inputs[rank], view);
    view.router_weights = static_cast<const float*>(inputs[rank].router_weights.data);
    view.out = static_cast<bfloat16*>(inputs[rank].out.data);
  }
  call.poison_outputs = [&inputs](api::MainGrads /*main_grads*/) {
    for (const ForwardInput& input : inputs) poison(input.out);
  };
  state.backend->run_pass(call);
  return ForwardContext(context);
}

ForwardContext recompute_forward_context(Workspace& workspace, const Schedule& schedule,
                                         std::span<const RecomputeInput> inputs, const PassOptions& options) {
  WorkspaceState& state = workspace.state();
  const api::InUse guard(state, "recompute_forward_context");
  state.backend->check_usable();
  check_forward_inputs(state, schedule.state(), inputs);
  const LayerShape layer = api::check_weights(state, schedule.state(), weight_sets(inputs), false);
  api::check_pass(state, program::Pass::recompute, options);
  const std::shared_ptr<ContextState> context = api::make_context(
      state, schedule.state(), layer, api::swiglu_limit(state.config, options), options.stream);

  api::PassCall call = api::bind_pass(state, schedule.state(), *context, program::Pass::recompute, options);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) bind_forward(inputs[rank], call.views[rank]);
  call.poison_outputs = [](api::MainGrads /*main_grads*/) {};
  state.backend->run_pass(call);
  return ForwardContext(context);
}

void backward(Workspace& workspace, const Schedule& schedule, const ForwardContext& context,
              std::span<const BackwardInput> inputs, const PassOptions& options) {
  WorkspaceState& state = workspace.state();
  const api::InUse guard(state, "backward");
  state.backend->check_usable();
  api::check_pass(state, program::Pass::backward, options);
  check_forward_inputs(state, schedule.state(), inputs);
  const LayerShape layer = api::check_weights(state, schedule.state(), weight_sets(inputs), true);
  api::check_context(state, schedule.state(), context.state(), layer, options);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    check_backward_input(state, schedule.state(), rank, inputs[rank], layer);
  }
  check_overlap(inputs);

  api::PassCall call =
      api::bind_pass(state, schedule.state(), context.state(), program::Pass::backward, options);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    const BackwardInput& input = inputs[rank];
    ops::RankView& view = call.views[rank];
    bind_forward(input, view);
    view.grad_output = static_cast<const bfloat16*>(input.grad_output.data);
    view.router_weights = static_cast<const float*>(input.router_weights.data);
    view.out = static_cast<bfloat16*>(input.d_x.data);
    view.d_router_weights = static_cast<float*>(input.d_router_weights.data);
    view.d_routed = api::bind_gradients(input.d_routed);
    view.d_shared = api::bind_gradients(input.d_shared);
  }
  call.poison_outputs = [&inputs](api::MainGrads main_grads) {
    for (const BackwardInput& input : inputs) {
      poison(input.d_x);
      poison(input.d_router_weights);
      poison(input.d_routed, main_grads);
      poison(input.d_shared, main_grads);
    }
  };
  state.backend->run_pass(call);
}

}  // namespace mok
