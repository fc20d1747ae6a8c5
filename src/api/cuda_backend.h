// SPDX-License-Identifier: Apache-2.0
// The backend of a Hopper GPU, of builds that have it. Plain C++, no CUDA header.
#pragma once

#include <cstdint>
#include <memory>

#include <mok/backend.h>

#include "api/backend.h"
#include "api/timeline_state.h"

namespace mok::api {

/// \throws InvalidArgument when the GPU is not there or of another kind; Error
std::unique_ptr<Backend> make_cuda_backend(const Config& config, const WorkspaceOptions& options);

/// \throws likewise
std::unique_ptr<TimelineState> make_cuda_timeline(const Device& device, std::int64_t capacity);

/// Asks the driver about the first GPU.
BackendInfo cuda_backend_info();

}  // namespace mok::api
