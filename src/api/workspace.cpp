// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <mok/backend.h>
#include <mok/error.h>
#include <mok/workspace.h>

#include "api/state.h"
#include "api/validate.h"
#include "cpu/features.h"
#include "cpu/tile_gemm.h"

namespace mok {
namespace api {
namespace {

/// Tiles of the CPU backend.
constexpr program::TileShape kCpuTiles{};

template <class Layout>
std::int64_t report(const program::Dims& dims, std::vector<BufferBytes>& buffers) {
  Layout layout = program::make_layout<Layout>(dims);
  Layout::visit(layout, dims, [&buffers](const char* name, const auto& field, std::int64_t /*count*/) {
    if (field.bytes() > 0) buffers.push_back({name, field.bytes()});
  });
  return layout.bytes;
}

void clear_local(const program::LocalLayout& layout, std::byte* base) {
  std::fill_n(layout.counters.at(base), layout.counters.count, 0u);
  std::fill_n(layout.watermark.at(base), layout.watermark.count, 0u);
  std::fill_n(layout.tickets.at(base), layout.tickets.count, std::uint64_t{0});
}

}  // namespace

void throw_moved_from(const char* handle) {
  throw InvalidArgument(fmt::format("the {} has been moved from; use the one that it was moved to", handle));
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

program::Dims WorkspaceState::dims(const LayerShape& layer, int rank) const {
  return program::make_dims(config, options, layer, rank, kCpuTiles);
}

LocalMemory& WorkspaceState::local(const LayerShape& layer) {
  const auto found = locals.find(key_of(layer));
  if (found != locals.end()) return found->second;
  LocalMemory memory;
  memory.layout = program::make_layout<program::LocalLayout>(dims(layer, 0));
  for (int rank = 0; rank < options.ranks; ++rank) {
    memory.ranks.emplace_back(memory.layout.bytes, "the local memory of a rank");
    clear_local(memory.layout, memory.ranks.back().data());
  }
  return locals.emplace(key_of(layer), std::move(memory)).first->second;
}

void WorkspaceState::clear_control() {
  const auto clear = [](const program::Field<std::uint64_t>& field, std::byte* base) {
    std::fill_n(field.at(base), field.count, std::uint64_t{0});
  };
  for (int rank = 0; rank < symmetric.ranks(); ++rank) {
    std::byte* const base = symmetric.peers()[rank];
    clear(symmetric_layout.ready, base);
    clear(symmetric_layout.done, base);
    clear(symmetric_layout.watermark, base);
    clear(symmetric_layout.abort, base);
    clear(symmetric_layout.heartbeat, base);
    clear(symmetric_layout.epoch, base);
  }
  for (auto& [key, local] : locals) {
    for (const group::HostBuffer& memory : local.ranks) clear_local(local.layout, memory.data());
  }
  epoch = 0;
  status = {};
}

InUse::InUse(WorkspaceState& state, const char* call) : state_(state) {
  if (state_.in_use.exchange(true, std::memory_order_acquire)) {
    throw InvalidArgument(
        fmt::format("{} was called on a workspace while another call on it was running; give each thread a "
                    "workspace of its own, or call one after the other",
                    call));
  }
}

}  // namespace api

std::vector<BackendInfo> backends() {
  const std::string missing = cpu::missing_features();
  return {{"cpu", missing.empty(), missing.empty() ? "worker threads on this machine's processor" : missing},
          {"cuda", false, "this build has no CUDA kernels"}};
}

MemoryReport nbytes_for(const Config& config, const WorkspaceOptions& options, const LayerShape& layer) {
  api::check_config(config);
  api::check_workspace_options(options);
  api::check_layer(layer, options);
  const program::Dims dims = program::make_dims(config, options, layer, 0, api::kCpuTiles);
  MemoryReport result;
  result.symmetric_bytes = api::report<program::SymmetricLayout>(dims, result.symmetric);
  result.local_bytes = api::report<program::LocalLayout>(dims, result.local);
  result.schedule_bytes = api::report<program::ScheduleLayout>(dims, result.schedule);
  result.context_bytes = api::report<program::ContextLayout>(dims, result.context);
  return result;
}

Workspace::Workspace(const Config& config, const WorkspaceOptions& options)
    : state_(std::make_unique<api::WorkspaceState>()) {
  api::check_config(config);
  api::check_workspace_options(options);
  if (const char* missing = cpu::missing_features(); *missing != '\0') throw Error(missing);
  cpu::check_tile_gemm();
  state_->config = config;
  state_->options = options;
  state_->id = api::next_id();
  state_->symmetric_layout = program::make_layout<program::SymmetricLayout>(state_->dims({}, 0));
  state_->symmetric = group::VirtualGroup(options.ranks, state_->symmetric_layout.bytes);
  state_->clear_control();
}

Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() = default;

void Workspace::reserve(const LayerShape& layer) {
  const api::InUse guard(state(), "Workspace::reserve");
  api::check_layer(layer, state_->options);
  static_cast<void>(state_->local(layer));
}

std::int64_t Workspace::nbytes() const {
  const api::InUse guard(state(), "Workspace::nbytes");
  std::int64_t sum = state_->symmetric.bytes();
  for (const auto& [key, local] : state_->locals) {
    for (const group::HostBuffer& memory : local.ranks) sum += memory.size();
  }
  return sum;
}

const Config& Workspace::config() const { return state().config; }
const WorkspaceOptions& Workspace::options() const { return state().options; }
Status Workspace::status() const {
  const api::InUse guard(state(), "Workspace::status");
  return state_->status;
}

void Workspace::check() const {
  const api::InUse guard(state(), "Workspace::check");
  const Status& status = state_->status;
  if (status.kind == StatusKind::deadline_exceeded) throw DeadlineExceeded(status.sentence());
  if (status.kind != StatusKind::ok) throw RoutingError(status.sentence());
}

void Workspace::reset() {
  const api::InUse guard(state(), "Workspace::reset");
  state_->clear_control();
}

api::WorkspaceState& Workspace::state() const { return api::owned(state_, "workspace"); }

}  // namespace mok
