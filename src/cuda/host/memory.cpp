// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/memory.h"

#include <atomic>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <mok/error.h>

#include "cuda/host/cuda_check.h"
#include "cuda/host/device.h"
#include "program/dims.h"
#include "program/layout.h"

namespace mok::cuda {
namespace {

/// Bytes from rank to rank in a block.
std::int64_t pitch_of(std::int64_t bytes) {
  return program::ceil_div(program::max<std::int64_t>(bytes, 1), program::kFieldAlignment) *
         program::kFieldAlignment;
}

void check_allocation(cudaError_t result, const char* call, int ordinal, int ranks, std::int64_t bytes,
                      const char* what) {
  if (result != cudaErrorMemoryAllocation) return check(result, call);
  forget_last_error();
  std::size_t free = 0;
  std::size_t total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  throw Error(
      fmt::format("cannot allocate {} bytes on cuda:{} for {} ({} bytes for each of {} ranks): {} of its {} "
                  "bytes are free; "
                  "lower max_tokens, or, for local memory and contexts, macrobatch_size",
                  ranks * pitch_of(bytes), ordinal, what, bytes, ranks, free, total));
}

group::RankMemory split(void* data, int ranks, std::int64_t bytes,
                        std::unique_ptr<group::MemoryBlock> block) {
  std::vector<std::byte*> bases;
  bases.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    bases.push_back(static_cast<std::byte*>(data) + rank * pitch_of(bytes));
  }
  return {std::move(bases), bytes, std::move(block)};
}

/// Copies on the host of what ranks hold, made when first asked for.
class HostCopies {
 public:
  const std::byte* of(const std::byte* base, std::int64_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = copies_.try_emplace(base);
    if (!is_new) return found->second.data();
    if (capture_of(stream) != 0) {
      copies_.erase(found);
      throw InvalidArgument(
          "the tables of a schedule were asked for while its stream is being captured; ask when the capture "
          "has "
          "ended");
    }
    const auto size = static_cast<std::size_t>(bytes);
    std::vector<std::byte> copy(size);
    check(cudaMemcpyAsync(copy.data(), base, size, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    found->second = std::move(copy);
    return found->second.data();
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, std::vector<std::byte>> copies_;
};

struct DeviceBlock : group::MemoryBlock {
  ~DeviceBlock() override {
    const CurrentDevice current(ordinal);
    static_cast<void>(cudaFree(data));
  }

  int ordinal = 0;
  void* data = nullptr;
};

class PoolBlock : public group::MemoryBlock {
 public:
  PoolBlock(std::shared_ptr<MemoryPool> pool, void* data, cudaStream_t stream, std::uint64_t capture)
      : pool_(std::move(pool)), data_(data), stream_(stream), capture_(capture) {}
  ~PoolBlock() override { pool_->free(data_, stream_, capture_); }

  void used_on(void* stream) override { stream_ = static_cast<cudaStream_t>(stream); }
  const std::byte* on_host(const std::byte* base, std::int64_t bytes) override {
    const CurrentDevice current(pool_->ordinal());
    return copies_.of(base, bytes, stream_);
  }

 private:
  std::shared_ptr<MemoryPool> pool_;
  void* data_;
  cudaStream_t stream_;
  std::uint64_t capture_;  ///< that it was allocated in; 0 = none
  HostCopies copies_;
};

}  // namespace

std::uint64_t capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &id), "cudaStreamGetCaptureInfo");
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

group::RankMemory device_memory(int ordinal, int ranks, std::int64_t bytes, const char* what) {
  const CurrentDevice current(ordinal);
  auto block = std::make_unique<DeviceBlock>();
  block->ordinal = ordinal;
  void*& data = block->data;
  check_allocation(cudaMalloc(&data, static_cast<std::size_t>(ranks * pitch_of(bytes))), "cudaMalloc",
                   ordinal, ranks, bytes, what);
  return split(data, ranks, bytes, std::move(block));
}

std::shared_ptr<MemoryPool> MemoryPool::make(int ordinal) {
  std::shared_ptr<MemoryPool> pool(new MemoryPool(ordinal));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  check(cudaMemPoolCreate(&pool->pool_, &properties), "cudaMemPoolCreate");
  // By default a pool gives all that is free back to the system whenever a stream is waited for, and every
  // step would pay for mapping it again.
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool->pool_, cudaMemPoolAttrReleaseThreshold, &threshold),
        "cudaMemPoolSetAttribute");
  return pool;
}

MemoryPool::~MemoryPool() {
  const CurrentDevice current(ordinal_);
  for (void* const data : kept_) static_cast<void>(cudaFree(data));
  if (pool_ != nullptr) static_cast<void>(cudaMemPoolDestroy(pool_));
  forget_last_error();
}

group::RankMemory MemoryPool::allocate(int ranks, std::int64_t bytes, const char* what, cudaStream_t stream) {
  const CurrentDevice current(ordinal_);
  const std::uint64_t capture = capture_of(stream);
  void* data = nullptr;
  check_allocation(
      cudaMallocFromPoolAsync(&data, static_cast<std::size_t>(ranks * pitch_of(bytes)), pool_, stream),
      "cudaMallocFromPoolAsync", ordinal_, ranks, bytes, what);
  auto block = std::make_unique<PoolBlock>(shared_from_this(), data, stream, capture);
  return split(data, ranks, bytes, std::move(block));
}

void MemoryPool::free(void* data, cudaStream_t stream, std::uint64_t capture) noexcept {
  const CurrentDevice current(ordinal_);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const bool known = cudaStreamGetCaptureInfo(stream, &status, &id) == cudaSuccess;
  const bool is_captured = !known || status != cudaStreamCaptureStatusNone;
  const bool of_this_capture = known && capture != 0 && capture == id;
  if (!is_captured || of_this_capture) {
    static_cast<void>(cudaFreeAsync(data, stream));
  } else if (capture == 0) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(data);
  }
  forget_last_error();
}

PinnedStatus::PinnedStatus() {
  void* host = nullptr;
  check(cudaHostAlloc(&host, sizeof(HostStatus), cudaHostAllocMapped), "cudaHostAlloc");
  host_ = new (host) HostStatus;
  void* device = nullptr;
  check(cudaHostGetDevicePointer(&device, host, 0), "cudaHostGetDevicePointer");
  device_ = static_cast<HostStatus*>(device);
}

PinnedStatus::~PinnedStatus() { static_cast<void>(cudaFreeHost(host_)); }

bool PinnedStatus::has_failed() const {
  // Acquire: the GPU wrote the rest of the record before this word.
  return std::atomic_ref<std::uint32_t>(host_->failure.raised).load(std::memory_order_acquire) != 0;
}

}  // namespace mok::cuda
