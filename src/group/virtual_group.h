// SPDX-License-Identifier: Apache-2.0
// R ranks inside one process on one device: their symmetric memory is ordinary memory of that device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "group/rank_memory.h"

namespace mok::group {

class VirtualGroup {
 public:
  VirtualGroup() = default;
  /// Allocates `bytes` of host memory for each rank.
  VirtualGroup(int ranks, std::int64_t bytes);
  /// \param table memory that holds the addresses of every rank's memory, where the host cannot hand over its
  /// own list of them because the device cannot read it.
  VirtualGroup(RankMemory memory, RankMemory table);

  [[nodiscard]] int ranks() const { return memory_.ranks(); }
  [[nodiscard]] const RankMemory& memory() const { return memory_; }
  /// Symmetric memory of every rank, in rank order: a list that the device can read, valid as long as the
  /// group.
  [[nodiscard]] std::byte* const* peers() const;
  [[nodiscard]] std::int64_t bytes() const { return memory_.bytes(); }

 private:
  RankMemory memory_;
  RankMemory table_;  ///< empty on the host
};

}  // namespace mok::group
