// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/cuda_check.h"

#include <fmt/format.h>

#include <mok/error.h>

namespace mok::cuda {

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  forget_last_error();
  throw Error(fmt::format("{} failed: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result)));
}

}  // namespace mok::cuda
