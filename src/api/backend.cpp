// SPDX-License-Identifier: Apache-2.0
#include "api/backend.h"

#include <mok/backend.h>

#include "api/cpu_backend.h"
#include "api/refuse.h"
#include "api/tensor_check.h"
#include "cpu/features.h"
#if MOK_HAS_CUDA
#include "api/cuda_backend.h"
#include "cuda/host/launch.h"
#endif

namespace mok {
namespace api {

#if MOK_HAS_CUDA

bool has_cuda_backend() { return true; }

std::unique_ptr<Backend> make_backend(const Config& config, const WorkspaceOptions& options) {
  const bool on_gpu = options.device.type == DeviceType::cuda;
  return on_gpu ? make_cuda_backend(config, options) : make_cpu_backend(config, options);
}

std::unique_ptr<TimelineState> make_timeline(const Device& device, std::int64_t capacity) {
  const bool on_gpu = device.type == DeviceType::cuda;
  return on_gpu ? make_cuda_timeline(device, capacity) : make_cpu_timeline(device, capacity);
}

program::TileShape tile_shape(const Device& device, const program::Dims& dims) {
  return device.type == DeviceType::cuda ? cuda::tile_shape(dims) : program::TileShape{};
}

std::int64_t schedule_scratch_bytes(const Device& device, const program::Dims& dims) {
  return device.type == DeviceType::cuda ? cuda::schedule_scratch_bytes(dims) : 0;
}

#else

bool has_cuda_backend() { return false; }

std::unique_ptr<Backend> make_backend(const Config& config, const WorkspaceOptions& options) {
  return make_cpu_backend(config, options);
}

std::unique_ptr<TimelineState> make_timeline(const Device& device, std::int64_t capacity) {
  if (device.type == DeviceType::cuda) {
    refuse("device is {}; {}, or let it be cpu", name_of(device), kNoCudaBackend);
  }
  return make_cpu_timeline(device, capacity);
}

program::TileShape tile_shape(const Device& /*device*/, const program::Dims& /*dims*/) { return {}; }

std::int64_t schedule_scratch_bytes(const Device& /*device*/, const program::Dims& /*dims*/) { return 0; }

BackendInfo cuda_backend_info() { return {"cuda", false, kNoCudaBackend}; }

#endif

}  // namespace api

std::vector<BackendInfo> backends() {
  const std::string missing = cpu::missing_features();
  return {{"cpu", missing.empty(), missing.empty() ? "worker threads on this machine's processor" : missing},
          api::cuda_backend_info()};
}

}  // namespace mok
