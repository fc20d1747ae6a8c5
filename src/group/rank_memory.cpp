// SPDX-License-Identifier: Apache-2.0
#include "group/rank_memory.h"

#include "group/host_buffer.h"

namespace mok::group {
namespace {

/// A buffer of its own for each rank, so that a sanitizer sees who runs past the end of one.
struct HostBlock : MemoryBlock {
  std::vector<HostBuffer> buffers;
};

}  // namespace

RankMemory host_memory(int ranks, std::int64_t bytes, const char* what) {
  auto block = std::make_unique<HostBlock>();
  std::vector<std::byte*> bases;
  for (int rank = 0; rank < ranks; ++rank) {
    block->buffers.emplace_back(bytes, what);
    bases.push_back(block->buffers.back().data());
  }
  return {std::move(bases), bytes, std::move(block)};
}

}  // namespace mok::group
