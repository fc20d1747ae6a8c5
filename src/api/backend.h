// SPDX-License-Identifier: Apache-2.0
// What the API asks of a backend. A workspace has one; everything in front of this interface is the same for
// all of them, and nothing behind it checks what a caller brought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mok/config.h>
#include <mok/status.h>

#include "api/timeline_state.h"
#include "group/fault_plan.h"
#include "group/rank_memory.h"
#include "group/virtual_group.h"
#include "ops/rank_view.h"
#include "program/op.h"

namespace mok::api {

struct LocalMemory;
struct ScheduleState;
struct ContextState;

/// A refused schedule computes nothing and leaves main_grads alone. An abandoned pass may have added to some
/// of their elements, which nobody could tell: all become NaN.
enum class MainGrads { keep, poison };

/// A pass with everything that it reads and writes. What it points to is alive until run_pass returns.
struct PassCall {
  program::Pass pass = program::Pass::forward;
  std::vector<ops::RankView> views;  ///< rank by rank
  LocalMemory* local = nullptr;
  LayerShape layer;
  const ScheduleState* schedule = nullptr;
  const ContextState* context = nullptr;
  TimelineState* timeline = nullptr;  ///< null = off
  group::FaultPlan faults;
  bool staged = false;
  bool multiply_only = false;
  void* stream = nullptr;
  /// Fills outputs with NaN where the backend's memory is the host's; elsewhere the kernels do.
  std::function<void(MainGrads)> poison_outputs;
};

/// Ids of one rank as the caller brings them.
struct RankIds {
  const void* data = nullptr;  ///< [T,K]
  bool is_int64 = false;
  std::int64_t num_tokens = 0;
};

/// The build of a schedule into memory that is there already.
struct ScheduleCall {
  ScheduleState* schedule = nullptr;
  std::vector<ops::RankView> views;  ///< dims, tables, symmetric memory
  std::vector<RankIds> ids;
  group::FaultPlan faults;
  void* stream = nullptr;
};

/// Memory that lives as long as a schedule or a context.
enum class CallMemory { schedule, context };

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // ---- Memory: uninitialised, the same number of bytes for every rank. \throws Error when it runs out. ----
  virtual group::VirtualGroup symmetric_memory(int ranks, std::int64_t bytes) = 0;
  virtual group::RankMemory local_memory(int ranks, std::int64_t bytes) = 0;
  /// Allocated in the order of the stream, without waiting for it.
  virtual group::RankMemory call_memory(CallMemory kind, int ranks, std::int64_t bytes, void* stream) = 0;
  /// Fills regions with zero bytes; they are when this returns.
  virtual void zero(std::span<const std::span<std::byte>> regions) = 0;

  // ---- Checks ----
  /// A sentence's end that says what is wrong with where `data` lies ("is in host memory; ..."), or nothing.
  virtual std::string problem_of_memory(const void* data) = 0;
  /// \throws InvalidArgument where memory cannot be allocated or zeroed now because a stream is captured.
  virtual void check_can_allocate(void* stream) = 0;
  /// \throws DeadlineExceeded when a pass is known to have failed and reset() was not called. Never waits.
  virtual void check_usable() = 0;

  // ---- Work ----
  /// \throws DeadlineExceeded where the backend runs it before returning; Error when it cannot be enqueued.
  virtual void build_schedule(const ScheduleCall& call) = 0;
  virtual void run_pass(const PassCall& call) = 0;

  // ---- What became of it ----
  /// Waits for all that was enqueued. \throws InvalidArgument inside a stream capture.
  virtual Status status() = 0;
  /// Waits likewise, and forgets failures and the count of passes. Control words are the caller's to clear.
  virtual void reset() = 0;
};

/// Whether this build has the CUDA backend, and the beginning of a sentence for when it has not.
bool has_cuda_backend();
inline constexpr const char* kNoCudaBackend =
    "this build of MoK has no CUDA backend; configure with -DMOK_CUDA=ON";

/// The backend for options.device, which must have been checked.
/// \param config must outlive the backend, which reads it in every pass. \throws Error, InvalidArgument when
/// this machine cannot run it.
std::unique_ptr<Backend> make_backend(const Config& config, const WorkspaceOptions& options);

/// Tiles that the backend of a device uses for a layer, told without asking the device.
program::TileShape tile_shape(const Device& device, const program::Dims& dims);

/// Bytes that the build of a schedule needs behind the tables of a rank.
std::int64_t schedule_scratch_bytes(const Device& device, const program::Dims& dims);

}  // namespace mok::api
