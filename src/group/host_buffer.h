// SPDX-License-Identifier: Apache-2.0
// Owned, aligned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mok::group {

/// Uninitialised bytes: pages that no pass touches cost nothing.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// \param what names the buffer in the error.
  /// \throws mok::Error when the machine cannot give that much.
  HostBuffer(std::int64_t bytes, const char* what);

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace mok::group
