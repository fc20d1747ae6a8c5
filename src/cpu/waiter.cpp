// SPDX-License-Identifier: Apache-2.0
#include "cpu/waiter.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace mok::cpu {

bool Waiter::aborted() const { return load_acquire(view().symmetric.abort.at(view().peers[rank_])) != 0; }

std::uint64_t Waiter::beats() const {
  std::uint64_t sum = 0;
  for (int peer = 0; peer < view().dims.ranks; ++peer) {
    sum += load_acquire(view().symmetric.heartbeat.at(view().peers[peer]));
  }
  return sum;
}

bool Waiter::peers_arrived() const {
  for (int peer = 0; peer < view().dims.ranks; ++peer) {
    if (load_acquire(view().symmetric.ready.at(view().peers[rank_]) + peer) < launch_.epoch) return false;
  }
  return true;
}

double Waiter::deadline(DeadlineKind kind) const {
  return kind == DeadlineKind::arrival ? launch_.settings.arrival_deadline_seconds
                                       : launch_.settings.progress_deadline_seconds;
}

bool Waiter::keep_waiting(Patience& patience, DeadlineKind kind) const {
  // Yields first, then sleeps that grow to 100 microseconds: workers may outnumber cores.
  constexpr int kYields = 16;
  if (patience.tries++ < kYields) {
    std::this_thread::yield();
    return true;
  }
  if (aborted()) return false;
  std::this_thread::sleep_for(std::chrono::microseconds(std::min(10 * (patience.tries - kYields), 100)));
  const double limit = deadline(kind);
  if (limit <= 0) return true;
  const Clock::time_point now = Clock::now();
  if (kind == DeadlineKind::progress) {
    const std::uint64_t seen = beats();
    if (seen != patience.beats || !peers_arrived()) {
      patience.beats = seen;
      patience.since = now;
    }
  }
  return std::chrono::duration<double>(now - patience.since).count() < limit;
}

void Waiter::give_up(const WaitSubject& subject, std::uint64_t expected, std::uint64_t seen,
                     DeadlineKind kind) {
  std::string counter = subject.counter;
  if (subject.peer >= 0) counter.append(" ").append(std::to_string(subject.peer));
  failures_.record({rank_, worker_, program::name(role_), subject.op, subject.tile, std::move(counter),
                    expected - subject.origin, std::max(seen, subject.origin) - subject.origin,
                    deadline(kind)});
  for (int peer = 0; peer < view().dims.ranks; ++peer) {
    raise_release(view().symmetric.abort.at(view().peers[peer]), launch_.epoch);
  }
}

}  // namespace mok::cpu
