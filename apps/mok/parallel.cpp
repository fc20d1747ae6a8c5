// SPDX-License-Identifier: Apache-2.0
#include "mok/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mok::tool {

void parallel_blocks(int threads, std::int64_t blocks, const std::function<void(std::int64_t)>& body) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i = next.fetch_add(1); i < blocks; i = next.fetch_add(1)) body(i);
    } catch (...) {
      next.store(blocks);
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    // Threads are started per call: some 20 microseconds each, against milliseconds of work, and nothing to
    // shut down.
    std::vector<std::jthread> helpers;
    const std::int64_t wanted = std::min<std::int64_t>(threads, blocks);
    for (std::int64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mok::tool
