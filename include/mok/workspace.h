// SPDX-License-Identifier: Apache-2.0
// The workspace: all memory that passes share, and the state of the group of ranks.
#pragma once

#include <cstdint>
#include <memory>

#include <mok/config.h>
#include <mok/memory.h>
#include <mok/status.h>

namespace mok {

namespace api {
struct WorkspaceState;
}

/// Buffers, counters and flags of one expert-parallel group. Passes of one workspace run one after the other;
/// using it from two threads at once is an error that is reported, not a race. Movable, not copyable; a
/// moved-from workspace may only be assigned to or destroyed.
class Workspace {
 public:
  /// \throws InvalidArgument naming the option, its value and what would do, also when the device is not
  /// there or of another kind; Error when memory runs out.
  Workspace(const Config& config, const WorkspaceOptions& options);
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  /// Allocates the local part for a layer now instead of at its first pass. Waits for the GPU, so that it
  /// cannot be done while a stream is being captured.
  void reserve(const LayerShape& layer);

  /// Bytes allocated at present over all ranks, without schedules and contexts (which the caller holds).
  [[nodiscard]] std::int64_t nbytes() const;

  [[nodiscard]] const Config& config() const;
  [[nodiscard]] const WorkspaceOptions& options() const;
  /// Waits for the passes that run on a GPU. Those that a CUDA graph replays are waited for too, provided
  /// that they were launched before. \throws InvalidArgument while a stream is being captured.
  [[nodiscard]] Status status() const;

  /// \throws RoutingError, DeadlineExceeded when the last schedule or pass failed. Waits as status() does.
  void check() const;

  /// After DeadlineExceeded: clears flags, counters and the abort word on every rank. Schedules and contexts
  /// made before stay valid. Waits as status() does.
  void reset();

  [[nodiscard]] api::WorkspaceState& state() const;  ///< for the library's own functions

 private:
  std::unique_ptr<api::WorkspaceState> state_;
};

}  // namespace mok
