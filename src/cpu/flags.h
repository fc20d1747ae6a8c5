// SPDX-License-Identifier: Apache-2.0
// Atomic access to control words in plain memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace mok::cpu {

template <class Word>
Word load_acquire(Word* word) {
  return std::atomic_ref<Word>(*word).load(std::memory_order_acquire);
}

template <class Word>
void store_release(Word* word, Word value) {
  std::atomic_ref<Word>(*word).store(value, std::memory_order_release);
}

/// Raises the word to `value`, keeping what is higher: flags may be raised by several workers out of order.
inline void raise_release(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t> flag(*word);
  std::uint64_t seen = flag.load(std::memory_order_relaxed);
  while (seen < value && !flag.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
  }
}

}  // namespace mok::cpu
