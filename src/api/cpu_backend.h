// SPDX-License-Identifier: Apache-2.0
// The backend whose SMs are worker threads.
#pragma once

#include <cstdint>
#include <memory>

#include "api/backend.h"
#include "api/timeline_state.h"

namespace mok::api {

/// \throws Error when the processor lacks an instruction, or its tile GEMM gives wrong bits.
std::unique_ptr<Backend> make_cpu_backend(const Config& config, const WorkspaceOptions& options);

std::unique_ptr<TimelineState> make_cpu_timeline(const Device& device, std::int64_t capacity);

}  // namespace mok::api
