// SPDX-License-Identifier: Apache-2.0
// Where workers write what they did, if anybody wants to know.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <mok/timeline.h>

#include "program/task.h"

namespace mok::cpu {

/// A buffer of events that fills up; any number of threads append.
class EventLog {
 public:
  explicit EventLog(std::int64_t capacity) : events_(static_cast<std::size_t>(capacity)) {}

  void append(const TimelineEvent& event) {
    const std::size_t i = count_.fetch_add(1, std::memory_order_relaxed);
    if (i < events_.size()) events_[i] = event;
  }

  // Between passes only.
  [[nodiscard]] std::vector<TimelineEvent> events() const {
    return {events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(held())};
  }
  [[nodiscard]] std::int64_t dropped() const { return static_cast<std::int64_t>(count_ - held()); }
  void clear() { count_ = 0; }

 private:
  [[nodiscard]] std::size_t held() const { return count_ < events_.size() ? count_.load() : events_.size(); }

  std::vector<TimelineEvent> events_;
  std::atomic<std::size_t> count_ = 0;
};

/// Runs the body of a task, and records when and by whom where there is a log.
template <class Body>
void run_recorded(EventLog* log, int rank, program::Role role, int worker, const program::Task& task,
                  const Body& body) {
  if (log == nullptr) return body();
  const auto now = [] {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
  };
  TimelineEvent event;
  event.begin_ns = now();
  body();
  event.end_ns = now();
  event.rank = rank;
  event.worker = worker;
  event.actor = role == program::Role::communication ? "dispatch" : "compute";
  event.op = program::name(task.op);
  event.tile = task.row_tile;
  event.col = task.col_begin;
  log->append(event);
}

}  // namespace mok::cpu
