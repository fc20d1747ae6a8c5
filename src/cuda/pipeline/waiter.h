// SPDX-License-Identifier: Apache-2.0
// Waiting on words in global memory, with deadlines and the abort word.
#pragma once

#include <cstdint>

#include "cuda/pipeline/flags.h"
#include "cuda/pipeline/plan.h"
#include "cuda/ptx/timer.h"

namespace mok::cuda {

/// What a wait is for, for the record of a failure.
struct WaitSubject {
  std::int32_t op = -1;  ///< program::Op; -1 = the start of the pass, -2 = its end
  std::int64_t tile = -1;
  std::int64_t counter = -1;  ///< index in the counter set; -1 = a flag
  std::int32_t peer = -1;     ///< whose flag
  bool is_arrival = false;    ///< a peer may come late: the arrival deadline
};

/// Waits of one role of one CTA.
struct Waiter {
  const LaunchParams& params;
  const RankPlan& plan;
  std::uint64_t epoch;
  std::int32_t role;

  __device__ std::byte* mine() const { return plan.view.peers[plan.view.dims.rank]; }

  __device__ bool aborted() const {
    return SystemWord<std::uint64_t>(*plan.view.symmetric.abort.at(mine()))
               .load(::cuda::memory_order_relaxed) != 0;
  }

  /// Returns true once *word >= at_least, having acquired it; false when the pass is aborted, by this wait's
  /// deadline or another's.
  template <class Ref, class Word>
  __device__ __forceinline__ bool wait(Word* word, Word at_least, const WaitSubject& subject) const {
    Ref ref(*word);
    for (int tries = 0; tries < kSpins; ++tries) {
      if (ref.load(::cuda::memory_order_acquire) >= at_least) return true;
    }
    Patience patience;
    for (;;) {
      const Word seen = ref.load(::cuda::memory_order_acquire);
      if (seen >= at_least) return true;
      if (keep_waiting(patience, subject.is_arrival)) continue;
      if (!aborted()) give_up(subject, at_least, seen);
      return false;
    }
  }

 private:
  static constexpr int kSpins = 32;
  static constexpr int kPollEvery = 64;

  struct Patience {
    std::uint32_t tries = 0;
    std::uint64_t beats = 0;
    std::uint64_t since = 0;
  };

  /// False on abort or when the deadline has passed. A progress deadline starts anew whenever any rank has
  /// finished a task, and does not run before all peers have arrived: until then the arrival deadline does.
  __device__ bool keep_waiting(Patience& patience, bool is_arrival) const {
    __nanosleep(32);
    if (++patience.tries % kPollEvery != 0) return true;
    if (aborted()) return false;
    const std::uint64_t limit = is_arrival ? params.arrival_deadline_ns : params.progress_deadline_ns;
    if (limit == 0) return true;
    const std::uint64_t now = ptx::globaltimer();
    if (patience.since == 0) patience.since = now;
    if (!is_arrival) {
      const std::uint64_t seen = beats();
      if (seen != patience.beats || !peers_arrived()) {
        patience.beats = seen;
        patience.since = now;
      }
    }
    return now - patience.since < limit;
  }

  __device__ std::uint64_t beats() const {
    std::uint64_t sum = 0;
#pragma unroll 1
    for (int peer = 0; peer < plan.view.dims.ranks; ++peer) {
      sum += SystemWord<std::uint64_t>(*plan.view.symmetric.heartbeat.at(plan.view.peers[peer]))
                 .load(::cuda::memory_order_relaxed);
    }
    return sum;
  }

  __device__ bool peers_arrived() const {
#pragma unroll 1
    for (int peer = 0; peer < plan.view.dims.ranks; ++peer) {
      const SystemWord<std::uint64_t> ready(plan.view.symmetric.ready.at(mine())[peer]);
      if (ready.load(::cuda::memory_order_relaxed) < epoch) return false;
    }
    return true;
  }

  /// Records what was waited for and raises the abort word at every rank. Rank 0's word names the first of
  /// all who give up; that one alone writes the record.
  __device__ void give_up(const WaitSubject& subject, std::uint64_t expected, std::uint64_t seen) const {
    const program::Field<std::uint64_t>& abort = plan.view.symmetric.abort;
    std::uint64_t none = 0;
    const bool is_first = SystemWord<std::uint64_t>(*abort.at(plan.view.peers[0]))
                              .compare_exchange_strong(none, epoch, ::cuda::memory_order_relaxed);
    if (is_first && params.status != nullptr) {
      volatile FailureRecord& record = params.status->failure;
      record.epoch = epoch;
      record.rank = plan.view.dims.rank;
      record.cta = static_cast<std::int32_t>(blockIdx.x);
      record.role = role;
      record.op = subject.op;
      record.tile = subject.tile;
      record.counter = subject.counter;
      record.peer = subject.peer;
      record.is_arrival = subject.is_arrival ? 1 : 0;
      record.expected = expected;
      record.seen = seen;
      __threadfence_system();  // the host reads the record once it sees `raised`
      record.raised = 1;
    }
#pragma unroll 1
    for (int peer = 0; peer < plan.view.dims.ranks; ++peer) {
      raise_release(abort.at(plan.view.peers[peer]), epoch);
    }
  }
};

}  // namespace mok::cuda
