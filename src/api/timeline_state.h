// SPDX-License-Identifier: Apache-2.0
// What a Timeline owns: a buffer where its device can write, and how to read it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mok/timeline.h>

namespace mok::api {

class TimelineState {
 public:
  explicit TimelineState(const Device& device) : device_(device) {}
  TimelineState(const TimelineState&) = delete;
  TimelineState& operator=(const TimelineState&) = delete;
  virtual ~TimelineState() = default;

  [[nodiscard]] const Device& device() const { return device_; }
  /// In any order.
  virtual std::vector<TimelineEvent> events() = 0;
  virtual std::int64_t dropped() = 0;
  virtual void clear() = 0;

 private:
  Device device_;
};

/// \throws InvalidArgument where this build or this machine has no such device.
std::unique_ptr<TimelineState> make_timeline(const Device& device, std::int64_t capacity);

}  // namespace mok::api
