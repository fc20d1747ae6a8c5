// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <mok/timeline.h>

#include "api/refuse.h"
#include "api/state.h"
#include "api/timeline_state.h"

namespace mok {
namespace {

constexpr std::int64_t kMaxCapacity = std::int64_t{1} << 30;

std::int64_t checked(std::int64_t capacity) {
  if (capacity < 1 || capacity > kMaxCapacity) {
    api::refuse("capacity is {}; it must be from 1 to {} events", capacity, kMaxCapacity);
  }
  return capacity;
}

}  // namespace

Timeline::Timeline(Device device, std::int64_t capacity)
    : state_(api::make_timeline(device, checked(capacity))) {}

Timeline::Timeline(Timeline&&) noexcept = default;
Timeline& Timeline::operator=(Timeline&&) noexcept = default;
Timeline::~Timeline() = default;

std::vector<TimelineEvent> Timeline::events() const {
  std::vector<TimelineEvent> events = state().events();
  std::sort(events.begin(), events.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    return std::tie(a.begin_ns, a.end_ns, a.rank, a.worker) <
           std::tie(b.begin_ns, b.end_ns, b.rank, b.worker);
  });
  return events;
}

std::int64_t Timeline::dropped() const { return state().dropped(); }
void Timeline::clear() { state().clear(); }

api::TimelineState& Timeline::state() const { return api::owned(state_, "timeline"); }

}  // namespace mok
