// SPDX-License-Identifier: Apache-2.0
#include "group/virtual_group.h"

#include <utility>

namespace mok::group {

VirtualGroup::VirtualGroup(int ranks, std::int64_t bytes)
    : memory_(host_memory(ranks, bytes, "the symmetric memory of a rank")) {}

VirtualGroup::VirtualGroup(RankMemory memory, RankMemory table)
    : memory_(std::move(memory)), table_(std::move(table)) {}

std::byte* const* VirtualGroup::peers() const {
  return table_.ranks() > 0 ? reinterpret_cast<std::byte* const*>(table_.of(0)) : memory_.bases();
}

}  // namespace mok::group
