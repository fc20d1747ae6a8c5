// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/host/cuda_check.h"

namespace mok::cuda {
namespace {

std::string problem_of_driver(cudaError_t result) {
  if (result == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (driver == 0) {
      return "this machine has no NVIDIA driver; install one that supports CUDA 13, or let device be cpu";
    }
    return fmt::format(
        "the NVIDIA driver supports CUDA {}.{} at most; install one that supports CUDA {}, or let device be "
        "cpu",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
  }
  if (result == cudaErrorNoDevice) {
    return "this machine shows no NVIDIA GPU (CUDA_VISIBLE_DEVICES may hide it); let device be cpu";
  }
  return fmt::format("the NVIDIA driver gave no answer: {} ({}); let device be cpu",
                     cudaGetErrorString(result), cudaGetErrorName(result));
}

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

DeviceAnswer ask_device(int ordinal) {
  DeviceAnswer answer;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess || count == 0) {
    forget_last_error();
    answer.problem = problem_of_driver(result == cudaSuccess ? cudaErrorNoDevice : result);
    return answer;
  }
  if (ordinal < 0 || ordinal >= count) {
    answer.problem =
        fmt::format("cuda:{} is not there; this machine has cuda:0 to cuda:{}", ordinal, count - 1);
    return answer;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  answer.facts = {properties.name,
                  properties.major,
                  properties.minor,
                  properties.multiProcessorCount,
                  attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
                  attribute(cudaDevAttrMemoryPoolsSupported, ordinal) != 0};
  const std::string problem = problem_of(answer.facts);
  if (!problem.empty()) answer.problem = fmt::format("cuda:{} {}", ordinal, problem);
  return answer;
}

// Errors are not looked at: the call that needed the device reports them.
CurrentDevice::CurrentDevice(int ordinal) {
  static_cast<void>(cudaGetDevice(&before_));
  if (before_ == ordinal) return;
  static_cast<void>(cudaSetDevice(ordinal));
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace mok::cuda
