// SPDX-License-Identifier: Apache-2.0
// Turns what CUDA returns into exceptions.
#pragma once

#include <cuda_runtime_api.h>

namespace mok::cuda {

/// \throws mok::Error naming the call and CUDA's reason, unless `result` is success.
void check(cudaError_t result, const char* call);

/// Forgets the error that the runtime keeps for the thread, after one that was dealt with.
inline void forget_last_error() { static_cast<void>(cudaGetLastError()); }

}  // namespace mok::cuda
