// SPDX-License-Identifier: Apache-2.0
// What the public handles own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <mok/config.h>

#include "api/backend.h"
#include "group/fault_plan.h"
#include "group/rank_memory.h"
#include "group/virtual_group.h"
#include "program/layout.h"

namespace mok::api {

/// Memory of all ranks for one kind of layer.
struct LocalMemory {
  program::LocalLayout layout;
  group::RankMemory ranks;
  int counter_set = 0;  ///< which of the two sets is clear and comes next; a GPU keeps that to itself
};

using LayerKey = std::tuple<int, std::int64_t, std::int64_t>;  ///< E, I, Is

inline LayerKey key_of(const LayerShape& layer) {
  return {layer.num_experts, layer.intermediate_size, layer.shared_intermediate_size};
}

struct WorkspaceState {
  Config config;
  WorkspaceOptions options;
  std::uint64_t id = 0;              ///< tells workspaces of a process apart
  std::unique_ptr<Backend> backend;  ///< before all memory: it goes last
  program::SymmetricLayout symmetric_layout;
  group::VirtualGroup symmetric;
  std::map<LayerKey, LocalMemory> locals;
  std::atomic<bool> in_use = false;
  group::FaultPlan faults;  ///< set by tests alone

  [[nodiscard]] program::Dims dims(const LayerShape& layer, int rank) const;
  /// Allocates on the first call for a kind of layer. \param stream that the caller is about to use.
  LocalMemory& local(const LayerShape& layer, void* stream);
  /// Flags and control words to their values at creation.
  void clear_control();
};

/// Tables lie where the backend reads them; the host may not be able to.
struct ScheduleState {
  std::uint64_t workspace_id = 0;
  std::uint64_t id = 0;
  int num_experts = 0;
  std::vector<program::Dims> dims;   ///< per rank, of the sizes that a schedule knows
  std::vector<std::int64_t> tokens;  ///< per rank
  program::ScheduleLayout layout;
  group::RankMemory memory;
  std::vector<program::ScheduleTables> tables;

  [[nodiscard]] std::int64_t num_tokens(int rank) const { return tokens[static_cast<std::size_t>(rank)]; }
};

struct ContextState {
  std::uint64_t workspace_id = 0;
  std::uint64_t schedule_id = 0;
  LayerShape layer;
  ops::SwigluLimit limit;
  program::ContextLayout layout;
  group::RankMemory memory;
};

[[noreturn]] void throw_moved_from(const char* handle);

/// What a handle owns. \throws InvalidArgument, naming the handle, when it has been moved from.
template <class Pointer>
auto& owned(const Pointer& state, const char* handle) {
  if (state == nullptr) throw_moved_from(handle);
  return *state;
}

/// A number that no other workspace or schedule of this process has.
std::uint64_t next_id();

/// Marks a workspace as in use for the time of a call. Two calls at once would corrupt it in silence.
class InUse {
 public:
  /// \throws InvalidArgument when it is in use already.
  InUse(WorkspaceState& state, const char* call);
  ~InUse() { state_.in_use.store(false, std::memory_order_release); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  WorkspaceState& state_;
};

}  // namespace mok::api
