// SPDX-License-Identifier: Apache-2.0
// Tensors where the layer wants them: in the host's memory or in a GPU's.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <mok/tensor.h>

namespace mok::tool {

/// Bytes of a GPU's memory. Movable; nothing is left in what was moved from.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Uninitialised. \throws ToolError when the GPU has no such memory left, or this build has no CUDA.
  DeviceMemory(int ordinal, std::size_t bytes);

  /// Null when it holds nothing.
  [[nodiscard]] void* data() const { return data_.get(); }
  /// So many bytes, at most all of them, from or to the host. Both wait for the GPU. \throws ToolError
  void upload(const void* from, std::size_t bytes);
  void download(void* to, std::size_t bytes) const;

 private:
  std::unique_ptr<void, void (*)(void*)> data_{nullptr, nullptr};
};

/// The elements of a tensor on a device. On the CPU they stay in the vector that they came in.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  /// \throws ToolError as DeviceMemory does.
  DeviceArray(std::vector<T> values, const Device& device) : size_(values.size()) {
    if (device.type == DeviceType::cpu) {
      host_ = std::move(values);
    } else {
      memory_ = DeviceMemory(device.index, size_ * sizeof(T));
      memory_.upload(values.data(), size_ * sizeof(T));
    }
  }

  [[nodiscard]] T* data() {
    return memory_.data() == nullptr ? host_.data() : static_cast<T*>(memory_.data());
  }

  /// A copy in the host's memory. \throws ToolError as DeviceMemory does.
  [[nodiscard]] std::vector<T> values() const {
    if (memory_.data() == nullptr) return host_;
    std::vector<T> copy(size_);
    memory_.download(copy.data(), size_ * sizeof(T));
    return copy;
  }

 private:
  std::size_t size_ = 0;
  std::vector<T> host_;
  DeviceMemory memory_;
};

}  // namespace mok::tool
