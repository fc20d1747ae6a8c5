// SPDX-License-Identifier: Apache-2.0
// Address space whose pages cost nothing until they are touched: for offsets larger than a test may fill.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

namespace mok::testing {

/// `count` elements that read as zero. `data()` is null where the machine does not give that much address
/// space.
template <class T>
class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    void* const mapped =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = mapped == MAP_FAILED ? nullptr : static_cast<T*>(mapped);
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  [[nodiscard]] T* data() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace mok::testing
