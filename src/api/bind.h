// SPDX-License-Identifier: Apache-2.0
// From checked arguments to a launch of the CPU backend.
#pragma once

#include <functional>
#include <memory>

#include <mok/layer.h>

#include "api/state.h"
#include "cpu/launch.h"

namespace mok::api {

/// A context with memory for all ranks.
std::shared_ptr<ContextState> make_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                                           const LayerShape& layer, ops::SwigluLimit limit);

/// Worker counts, deadlines and shuffling of a pass.
cpu::Settings settings_of(const WorkspaceState& workspace, program::Pass pass);

/// A launch whose views know tables, memory and context, and nothing yet of the caller's tensors.
cpu::Launch bind_pass(WorkspaceState& workspace, const ScheduleState& schedule, const ContextState& context,
                      program::Pass pass);

ops::Weights bind_weights(const ExpertWeights& weights);
ops::Gradients bind_gradients(const WeightGradients& gradients);

/// Begins the next epoch and runs; on a deadline records the status and throws after `on_failure` has run.
/// \throws DeadlineExceeded, also when an earlier pass failed and reset() was not called.
void run_pass(WorkspaceState& workspace, LocalMemory& local, cpu::Launch& launch, bool staged,
              const std::function<void()>& on_failure);

/// Refuses to go on with a workspace whose last pass failed.
void check_usable(const WorkspaceState& workspace);

/// Records a failed wait.
void record_failure(WorkspaceState& workspace, const cpu::WaitFailure& failure);

}  // namespace mok::api
