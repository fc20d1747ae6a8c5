// SPDX-License-Identifier: Apache-2.0
// Memory of the current GPU for tests: filled from the host, read back, poisoned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

namespace mok::testing {

/// Every byte of poisoned memory: bf16 and f32 become NaN, integers -1.
inline constexpr int kPoisonByte = 0xFF;

/// \throws std::runtime_error with CUDA's reason, unless `result` is success.
inline void require_success(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

/// `count` elements on the GPU, poisoned at first. Its copies wait for the whole GPU, so that no test depends
/// on a stream's order by mistake. Movable.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::int64_t count) : count_(static_cast<std::size_t>(count)) {
    if (count_ == 0) return;
    require_success(cudaMalloc(&data_, bytes()), "cudaMalloc");
    poison();
  }
  explicit DeviceBuffer(const std::vector<T>& values)
      : DeviceBuffer(static_cast<std::int64_t>(values.size())) {
    upload(values);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { static_cast<void>(cudaFree(data_)); }

  /// Null when it holds nothing.
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(count_); }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }

  void poison() { fill(kPoisonByte); }
  void fill(int byte) {
    synchronize();
    if (count_ > 0) require_success(cudaMemset(data_, byte, bytes()), "cudaMemset");
    synchronize();
  }
  void upload(const std::vector<T>& values) {
    if (values.size() != count_) {
      throw std::runtime_error("upload has " + std::to_string(values.size()) +
                               " elements; the buffer holds " + std::to_string(count_));
    }
    copy(data_, values.data(), cudaMemcpyHostToDevice);
  }
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(count_);
    copy(values.data(), data_, cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  static void synchronize() { require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    synchronize();
    if (count_ > 0) require_success(cudaMemcpy(to, from, bytes(), kind), "cudaMemcpy");
    synchronize();
  }
  void swap(DeviceBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  void* data_ = nullptr;
  std::size_t count_ = 0;
};

/// A stream of its own, which does not wait for the default one.
class TestStream {
 public:
  TestStream() {
    require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void synchronize() const { require_success(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace mok::testing
