// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, and whether the kernels run on one. Plain C++, no CUDA header.
#pragma once

#include <string>

#include <fmt/format.h>

namespace mok::cuda {

struct DeviceFacts {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int num_sms = 0;
  int shared_bytes_per_block = 0;  ///< that a kernel may ask for
  bool has_memory_pools = false;
};

/// Why the kernels cannot run on a GPU with these facts, as the rest of a sentence that begins with "cuda:0";
/// empty when they can.
inline std::string problem_of(const DeviceFacts& facts) {
  if (facts.major != 9 || facts.minor != 0) {
    return fmt::format(
        "is {}, of compute capability {}.{}; the kernels are made for compute capability 9.0 (H100, H200, "
        "GH200), so take such a GPU, or let device be cpu",
        facts.name, facts.major, facts.minor);
  }
  // A part of a GPU (MIG) has fewer SMs; a rank needs one that communicates and one that computes.
  if (facts.num_sms < 2) {
    return fmt::format("is {} with {} SM; a pass needs at least 2", facts.name, facts.num_sms);
  }
  if (!facts.has_memory_pools) {
    return fmt::format("is {}, whose driver has no memory pools; let device be cpu", facts.name);
  }
  return "";
}

struct DeviceAnswer {
  DeviceFacts facts;
  std::string problem;  ///< a sentence, empty when the GPU can be used
};

/// Asks the driver; the first call of a process starts it.
DeviceAnswer ask_device(int ordinal);

/// Makes a GPU the thread's current one while it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace mok::cuda
