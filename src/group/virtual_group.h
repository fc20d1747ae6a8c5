// SPDX-License-Identifier: Apache-2.0
// R ranks inside one process: their symmetric memory is ordinary memory of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "group/host_buffer.h"

namespace mok::group {

class VirtualGroup {
 public:
  VirtualGroup() = default;
  /// Allocates `bytes` for each rank.
  VirtualGroup(int ranks, std::int64_t bytes);

  [[nodiscard]] int ranks() const { return static_cast<int>(bases_.size()); }
  /// Symmetric memory of every rank, in rank order; valid as long as the group.
  [[nodiscard]] std::byte* const* peers() const { return bases_.data(); }
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::vector<HostBuffer> buffers_;
  std::vector<std::byte*> bases_;
};

}  // namespace mok::group
