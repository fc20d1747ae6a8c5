// SPDX-License-Identifier: Apache-2.0
#include "group/virtual_group.h"

namespace mok::group {

VirtualGroup::VirtualGroup(int ranks, std::int64_t bytes) {
  for (int rank = 0; rank < ranks; ++rank) {
    buffers_.emplace_back(bytes, "the symmetric memory of a rank");
    bases_.push_back(buffers_.back().data());
  }
}

std::int64_t VirtualGroup::bytes() const {
  std::int64_t sum = 0;
  for (const HostBuffer& buffer : buffers_) sum += buffer.size();
  return sum;
}

}  // namespace mok::group
