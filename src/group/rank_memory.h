// SPDX-License-Identifier: Apache-2.0
// Memory of all ranks of this process, as many bytes for each, wherever it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mok::group {

/// Who owns the bytes of a RankMemory and frees them.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  virtual ~MemoryBlock() = default;

  /// Work that was enqueued on a stream uses the memory: it must not be given to others before that is done.
  virtual void used_on(void* /*stream*/) {}

  /// Bytes that the host can read: the memory itself, or a copy that is made once.
  virtual const std::byte* on_host(const std::byte* base, std::int64_t /*bytes*/) { return base; }
};

class RankMemory {
 public:
  RankMemory() = default;
  RankMemory(std::vector<std::byte*> bases, std::int64_t bytes_per_rank, std::unique_ptr<MemoryBlock> block)
      : bases_(std::move(bases)), bytes_per_rank_(bytes_per_rank), block_(std::move(block)) {}

  [[nodiscard]] int ranks() const { return static_cast<int>(bases_.size()); }
  [[nodiscard]] std::byte* of(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }
  /// The memory of every rank, in rank order; valid as long as this.
  [[nodiscard]] std::byte* const* bases() const { return bases_.data(); }
  /// Over all ranks.
  [[nodiscard]] std::int64_t bytes() const { return bytes_per_rank_ * ranks(); }

  void used_on(void* stream) const { block_->used_on(stream); }
  /// What the host can read of a rank's memory. May wait for the device and copy.
  [[nodiscard]] const std::byte* on_host(int rank) const {
    return block_->on_host(of(rank), bytes_per_rank_);
  }

 private:
  std::vector<std::byte*> bases_;
  std::int64_t bytes_per_rank_ = 0;
  std::unique_ptr<MemoryBlock> block_;
};

/// Uninitialised host memory. \param what names the memory of one rank in the error. \throws mok::Error when
/// the machine cannot give that much.
RankMemory host_memory(int ranks, std::int64_t bytes, const char* what);

}  // namespace mok::group
