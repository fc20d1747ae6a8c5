// SPDX-License-Identifier: Apache-2.0
// Atomic access to control words. Scope device for words of one GPU, system for words that peers touch.
#pragma once

#include <cstdint>

#include <cuda/atomic>

namespace mok::cuda {

template <class Word>
using DeviceWord = ::cuda::atomic_ref<Word, ::cuda::thread_scope_device>;
template <class Word>
using SystemWord = ::cuda::atomic_ref<Word, ::cuda::thread_scope_system>;

/// Raises the word to `value`, keeping what is higher: flags may be raised by several CTAs out of order.
__device__ __forceinline__ void raise_release(std::uint64_t* word, std::uint64_t value) {
  SystemWord<std::uint64_t>(*word).fetch_max(value, ::cuda::memory_order_release);
}

}  // namespace mok::cuda
