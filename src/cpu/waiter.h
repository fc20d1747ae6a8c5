// SPDX-License-Identifier: Apache-2.0
// Waiting on control words, with deadlines and the abort word.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "cpu/flags.h"
#include "cpu/launch.h"

namespace mok::cpu {

/// Holds the first failure of a pass.
class FailureBox {
 public:
  void record(const WaitFailure& failure) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = failure;
  }
  [[nodiscard]] const std::optional<WaitFailure>& first() const { return first_; }  ///< once workers are gone

 private:
  std::mutex mutex_;
  std::optional<WaitFailure> first_;
};

/// Which deadline a wait has: for a peer to arrive, or for progress once all have.
enum class DeadlineKind { arrival, progress };

/// What a wait is for, in the words of the error.
struct WaitSubject {
  const char* op = "";
  std::int64_t tile = -1;
  const char* counter = "";
  int peer = -1;             ///< the rank whose counter it is, named behind it; -1 = none to name
  std::uint64_t origin = 0;  ///< what the word holds at the start of the pass: told values count from there
};

/// One worker's waits.
class Waiter {
 public:
  Waiter(const Launch& launch, FailureBox& failures, int rank, program::Role role, int worker)
      : launch_(launch), failures_(failures), rank_(rank), role_(role), worker_(worker) {}

  /// Returns true once *word >= at_least, having acquired it; false when the pass is aborted, by this wait's
  /// deadline or another's.
  template <class Word>
  bool wait(Word* word, std::uint64_t at_least, const WaitSubject& subject, DeadlineKind kind) {
    for (int i = 0; i < kSpins; ++i) {
      if (load_acquire(word) >= at_least) return true;
    }
    Patience patience;
    for (;;) {
      const std::uint64_t seen = load_acquire(word);
      if (seen >= at_least) return true;
      if (keep_waiting(patience, kind)) continue;
      if (!aborted()) give_up(subject, at_least, seen, kind);
      return false;
    }
  }

  /// The abort word of this rank has been raised.
  [[nodiscard]] bool aborted() const;

 private:
  static constexpr int kSpins = 64;
  using Clock = std::chrono::steady_clock;

  struct Patience {
    int tries = 0;
    std::uint64_t beats = 0;
    Clock::time_point since = Clock::now();
  };

  /// Backs off; false on abort or when the deadline has passed. A progress deadline starts anew whenever any
  /// rank has finished a task: on a CPU one task of a large shape can take long, and ranks may have very
  /// different loads. It does not run before all peers have arrived: until then the communication worker's
  /// arrival deadline does.
  bool keep_waiting(Patience& patience, DeadlineKind kind) const;
  /// Records what was waited for and raises the abort word at every rank.
  void give_up(const WaitSubject& subject, std::uint64_t expected, std::uint64_t seen, DeadlineKind kind);
  [[nodiscard]] std::uint64_t beats() const;
  [[nodiscard]] bool peers_arrived() const;
  [[nodiscard]] const ops::RankView& view() const {
    return launch_.ranks[static_cast<std::size_t>(rank_)].view;
  }
  [[nodiscard]] double deadline(DeadlineKind kind) const;

  const Launch& launch_;
  FailureBox& failures_;
  int rank_;
  program::Role role_;
  int worker_;
};

}  // namespace mok::cpu
