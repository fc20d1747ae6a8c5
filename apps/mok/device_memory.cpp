// SPDX-License-Identifier: Apache-2.0
#include "mok/device_memory.h"

#include <fmt/format.h>

#include "mok/human.h"
#include "mok/tool_error.h"

#if MOK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace mok::tool {

#if MOK_HAS_CUDA

namespace {

void require_success(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw ToolError(kExitFailed, fmt::format("{} failed: {}.", call, cudaGetErrorString(result)));
}

}  // namespace

DeviceMemory::DeviceMemory(int ordinal, std::size_t bytes) {
  if (bytes == 0) return;
  require_success(cudaSetDevice(ordinal), "cudaSetDevice");
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) {
    throw ToolError(kExitFailed, fmt::format("cuda:{} has no {} of memory left: choose smaller sizes.",
                                             ordinal, human_bytes(static_cast<double>(bytes))));
  }
  require_success(result, "cudaMalloc");
  data_ = {data, [](void* memory) { static_cast<void>(cudaFree(memory)); }};
}

void DeviceMemory::upload(const void* from, std::size_t bytes) {
  if (bytes > 0) require_success(cudaMemcpy(data(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void DeviceMemory::download(void* to, std::size_t bytes) const {
  if (bytes > 0) require_success(cudaMemcpy(to, data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

#else

// The library refuses a GPU before anybody asks for its memory.
DeviceMemory::DeviceMemory(int ordinal, std::size_t /*bytes*/) {
  throw ToolError(kExitFailed, fmt::format("This build has no CUDA, so cuda:{} cannot be used.", ordinal));
}

void DeviceMemory::upload(const void* /*from*/, std::size_t /*bytes*/) {}
void DeviceMemory::download(void* /*to*/, std::size_t /*bytes*/) const {}

#endif

}  // namespace mok::tool
