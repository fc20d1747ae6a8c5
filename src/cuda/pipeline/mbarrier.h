// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory, with a deadline on every wait.
#pragma once

#include <cstdint>

#include <cuda/ptx>

#include "cuda/ptx/timer.h"

namespace mok::cuda {

/// Guards the waits of a CTA on its own barriers. They end when the roles go on, and the roles go on when the
/// task warp does, whose waits on global memory have deadlines and poll the abort word. So this deadline is
/// only met when the kernel itself is wrong; it turns a hang into an error.
struct Guard {
  std::uint64_t limit_ns = 0;  ///< 0 = never
  std::uint32_t broken = 0;    ///< a wait has given up: no later one waits
};

struct Barrier {
  std::uint64_t word;

  __device__ __forceinline__ void init(std::uint32_t arrivals) {
    ::cuda::ptx::mbarrier_init(&word, arrivals);
  }
  /// Before its memory is used for something else.
  __device__ __forceinline__ void invalidate() {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(&word)))
                 : "memory");
  }
  __device__ __forceinline__ void arrive() { ::cuda::ptx::mbarrier_arrive(&word); }
  __device__ __forceinline__ void arrive_expect(std::uint32_t bytes) {
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared, &word, bytes);
  }
  __device__ __forceinline__ bool try_wait(std::uint32_t parity) {
    return ::cuda::ptx::mbarrier_try_wait_parity(&word, parity);
  }
  __device__ __forceinline__ void wait(std::uint32_t parity, volatile Guard& guard) {
    if (try_wait(parity)) return;
    std::uint64_t since = 0;
    std::uint32_t tries = 0;
    while (!try_wait(parity)) {
      if ((++tries & 255u) != 0) continue;
      if (guard.broken != 0) return;
      const std::uint64_t now = ptx::globaltimer();
      if (since == 0) since = now;
      if (guard.limit_ns != 0 && now - since > guard.limit_ns) guard.broken = 1;
    }
  }
};

/// A place in a ring of stages, and the parity of the barriers there. `empty` barriers are waited for with
/// the other parity, so that the first round does not wait.
template <int Stages>
struct RingCursor {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace mok::cuda
