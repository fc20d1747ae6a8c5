// SPDX-License-Identifier: Apache-2.0
// Device memory with owners: what a workspace keeps, what schedules and contexts hold for a while, and the
// words that the GPU writes into the host's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/pipeline/control.h"
#include "group/rank_memory.h"

namespace mok::cuda {

/// Uninitialised memory of a GPU, in one piece for all ranks. Waits for the GPU. \param what names it in the
/// error. \throws mok::Error
group::RankMemory device_memory(int ordinal, int ranks, std::int64_t bytes, const char* what);

/// Memory that comes and goes with calls, in the order of the streams that use it: nobody waits.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  /// \throws mok::Error
  static std::shared_ptr<MemoryPool> make(int ordinal);
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  /// Freed behind the work of the last stream that it was used on, which must still exist then. Inside a
  /// capture it belongs to the graph. \throws mok::Error
  group::RankMemory allocate(int ranks, std::int64_t bytes, const char* what, cudaStream_t stream);

  /// Gives back what allocate() gave. Inside the capture of a stream, memory from outside of it is kept until
  /// the pool goes: the graph may use it whenever it is replayed.
  void free(void* data, cudaStream_t stream, std::uint64_t capture) noexcept;

  [[nodiscard]] int ordinal() const { return ordinal_; }

 private:
  explicit MemoryPool(int ordinal) : ordinal_(ordinal) {}

  int ordinal_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::vector<void*> kept_;
};

/// A HostStatus in pinned memory that the GPU writes.
class PinnedStatus {
 public:
  PinnedStatus();
  PinnedStatus(const PinnedStatus&) = delete;
  PinnedStatus& operator=(const PinnedStatus&) = delete;
  ~PinnedStatus();

  [[nodiscard]] HostStatus* on_device() const { return device_; }
  /// Whether a failure is on record; what it says is complete then. Does not wait.
  [[nodiscard]] bool has_failed() const;
  /// Between passes only, but for the failure once has_failed().
  [[nodiscard]] const HostStatus& read() const { return *host_; }
  void clear() { *host_ = {}; }

 private:
  HostStatus* host_ = nullptr;
  HostStatus* device_ = nullptr;
};

/// The id of the capture that a stream is part of; 0 = none. \throws mok::Error
std::uint64_t capture_of(cudaStream_t stream);

}  // namespace mok::cuda
