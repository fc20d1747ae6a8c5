// SPDX-License-Identifier: Apache-2.0
// From checked arguments to a call of the backend.
#pragma once

#include <memory>

#include <mok/layer.h>

#include "api/backend.h"
#include "api/state.h"

namespace mok::api {

/// A context with memory for all ranks.
std::shared_ptr<ContextState> make_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                                           const LayerShape& layer, ops::SwigluLimit limit, void* stream);

/// A pass whose views know tables, memory and context, and nothing yet of the caller's tensors.
PassCall bind_pass(WorkspaceState& workspace, const ScheduleState& schedule, const ContextState& context,
                   program::Pass pass, const PassOptions& options);

ops::Weights bind_weights(const ExpertWeights& weights);
ops::Gradients bind_gradients(const WeightGradients& gradients);

}  // namespace mok::api
