// SPDX-License-Identifier: Apache-2.0
// What happened inside a pass, task by task: for finding out where time goes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <mok/tensor.h>

namespace mok {

namespace api {
class TimelineState;
}

/// One task, or one actor's part in it.
struct TimelineEvent {
  int rank = 0;
  int worker = 0;          ///< the SM; on the CPU, the number of the thread among those of its role
  const char* actor = "";  ///< GPU: task, load, consumer0, consumer1, store, dispatch. CPU: dispatch, compute
  const char* op = "";     ///< e.g. "gate_up"
  std::int64_t tile = 0;   ///< row tile
  std::int64_t col = 0;    ///< first column of the output tile
  std::uint64_t begin_ns = 0;  ///< on a clock of the device, the same for all of its workers
  std::uint64_t end_ns = 0;
  std::int64_t bytes = 0;  ///< of global memory that the actor moved, reads and writes; 0 = not counted (CPU)
};

/// Records the tasks of the passes that it is given to (PassOptions::timeline), until it is full. Movable,
/// not copyable; a moved-from timeline may only be assigned to or destroyed. It must outlive the passes that
/// record into it, also those that are still running on a GPU and those that a CUDA graph replays.
class Timeline {
 public:
  /// \param device that of the workspace. \param capacity events that fit, 1 to 2^30; an event takes 48 bytes
  /// of the GPU's memory.
  /// \throws InvalidArgument; Error when memory runs out.
  explicit Timeline(Device device = {}, std::int64_t capacity = std::int64_t{1} << 20);
  Timeline(Timeline&&) noexcept;
  Timeline& operator=(Timeline&&) noexcept;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline();

  /// Everything recorded since the last clear(), sorted by begin. Waits for the device.
  [[nodiscard]] std::vector<TimelineEvent> events() const;
  /// Events that did not fit. Waits for the device.
  [[nodiscard]] std::int64_t dropped() const;
  /// Forgets all events. Waits for the device.
  void clear();

  [[nodiscard]] api::TimelineState& state() const;  ///< for the library's own functions

 private:
  std::unique_ptr<api::TimelineState> state_;
};

}  // namespace mok
