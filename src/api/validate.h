// SPDX-License-Identifier: Apache-2.0
// The checks of what callers bring. Each throws InvalidArgument with a sentence that names the argument, its
// value and what would do; nothing behind the API checks again.
#pragma once

#include <cstdint>
#include <span>

#include <mok/layer.h>

#include "api/state.h"
#include "api/tensor_check.h"

namespace mok::api {

void check_config(const Config& config);
void check_workspace_options(const WorkspaceOptions& options);
void check_layer(const LayerShape& layer, const WorkspaceOptions& options);

/// A call must bring one entry per rank.
void check_entry_count(const char* name, std::size_t count, const WorkspaceOptions& options);

/// That the schedule was made on this workspace.
void check_schedule(const WorkspaceState& workspace, const ScheduleState& schedule);
/// That the context was made from this schedule, on this workspace, for this layer and limit.
void check_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                   const ContextState& context, const LayerShape& layer, const PassOptions& options);

/// The clamp of a pass: the options' if they have one, else the config's.
ops::SwigluLimit swiglu_limit(const Config& config, const PassOptions& options);

/// Weights of a pass, rank by rank.
struct WeightSet {
  const ExpertWeights* routed;
  const ExpertWeights* shared;
};
/// The layer that the weights make; checks all of them. `with_down` = down projections are read.
LayerShape check_weights(const WorkspaceState& workspace, const ScheduleState& schedule,
                         std::span<const WeightSet> weights, bool with_down);

/// Activation of one rank, [T,columns].
void check_rows(const WorkspaceState& workspace, const ScheduleState& schedule, int rank, const char* name,
                const ConstTensorView& tensor, DType dtype, Dim columns, bool writable = false);

/// Gradients of routed or shared weights of one rank: all bf16 or all f32.
void check_gradients(const WorkspaceState& workspace, const TensorName& name,
                     const WeightGradients& gradients, const LayerShape& layer, bool shared);

/// That no gradient is asked for where there is no weight.
void check_no_gradients(const TensorName& name, const WeightGradients& gradients);

/// That the workspace's backend has such a pass, and that the options fit its device.
void check_pass(const WorkspaceState& workspace, program::Pass pass, const PassOptions& options);

}  // namespace mok::api
