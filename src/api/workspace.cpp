// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <vector>

#include <mok/error.h>
#include <mok/workspace.h>

#include "api/backend.h"
#include "api/refuse.h"
#include "api/state.h"
#include "api/validate.h"

namespace mok {
namespace api {
namespace {

template <class Layout>
std::int64_t report(const program::Dims& dims, std::vector<BufferBytes>& buffers) {
  Layout layout = program::make_layout<Layout>(dims);
  Layout::visit(layout, dims, [&buffers](const char* name, const auto& field, std::int64_t /*count*/) {
    if (field.bytes() > 0) buffers.push_back({name, field.bytes()});
  });
  return layout.bytes;
}

using Regions = std::vector<std::span<std::byte>>;

template <class T>
void add(const program::Field<T>& field, std::byte* base, Regions& regions) {
  regions.emplace_back(base + field.offset, static_cast<std::size_t>(field.bytes()));
}

void add_control(const LocalMemory& local, Regions& regions) {
  for (int rank = 0; rank < local.ranks.ranks(); ++rank) {
    std::byte* const base = local.ranks.of(rank);
    add(local.layout.counters, base, regions);
    add(local.layout.watermark, base, regions);
    add(local.layout.tickets, base, regions);
    add(local.layout.counter_set, base, regions);
    add(local.layout.arrivals, base, regions);
  }
}

program::Dims dims_of(const Config& config, const WorkspaceOptions& options, const LayerShape& layer,
                      int rank) {
  program::Dims dims = program::make_dims(config, options, layer, rank, {});
  dims.tile = tile_shape(options.device, dims);
  return dims;
}

}  // namespace

void throw_moved_from(const char* handle) {
  refuse("the {} has been moved from; use the one that it was moved to", handle);
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

program::Dims WorkspaceState::dims(const LayerShape& layer, int rank) const {
  return dims_of(config, options, layer, rank);
}

LocalMemory& WorkspaceState::local(const LayerShape& layer, void* stream) {
  const auto found = locals.find(key_of(layer));
  if (found != locals.end()) return found->second;
  backend->check_can_allocate(stream);
  LocalMemory memory;
  memory.layout = program::make_layout<program::LocalLayout>(dims(layer, 0));
  memory.ranks = backend->local_memory(options.ranks, memory.layout.bytes);
  Regions regions;
  add_control(memory, regions);
  backend->zero(regions);
  return locals.emplace(key_of(layer), std::move(memory)).first->second;
}

void WorkspaceState::clear_control() {
  Regions regions;
  for (int rank = 0; rank < symmetric.ranks(); ++rank) {
    std::byte* const base = symmetric.memory().of(rank);
    add(symmetric_layout.ready, base, regions);
    add(symmetric_layout.done, base, regions);
    add(symmetric_layout.watermark, base, regions);
    add(symmetric_layout.abort, base, regions);
    add(symmetric_layout.heartbeat, base, regions);
    add(symmetric_layout.epoch, base, regions);
  }
  for (const auto& [key, local] : locals) add_control(local, regions);
  backend->zero(regions);
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

MemoryReport nbytes_for(const Config& config, const WorkspaceOptions& options, const LayerShape& layer) {
  api::check_config(config);
  api::check_workspace_options(options);
  api::check_layer(layer, options);
  const program::Dims dims = api::dims_of(config, options, layer, 0);
  MemoryReport result;
  result.symmetric_bytes = api::report<program::SymmetricLayout>(dims, result.symmetric);
  result.local_bytes = api::report<program::LocalLayout>(dims, result.local);
  result.schedule_bytes = api::report<program::ScheduleLayout>(dims, result.schedule);
  if (const std::int64_t scratch = api::schedule_scratch_bytes(options.device, dims); scratch > 0) {
    result.schedule.push_back({"scratch of the build", scratch});
    result.schedule_bytes += scratch;
  }
  result.context_bytes = api::report<program::ContextLayout>(dims, result.context);
  return result;
}

Workspace::Workspace(const Config& config, const WorkspaceOptions& options)
    : state_(std::make_unique<api::WorkspaceState>()) {
  api::check_config(config);
  api::check_workspace_options(options);
  state_->config = config;
  state_->options = options;
  state_->id = api::next_id();
  state_->backend = api::make_backend(state_->config, options);
  state_->symmetric_layout = program::make_layout<program::SymmetricLayout>(state_->dims({}, 0));
  state_->symmetric = state_->backend->symmetric_memory(options.ranks, state_->symmetric_layout.bytes);
  state_->clear_control();
}

Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() = default;

void Workspace::reserve(const LayerShape& layer) {
  const api::InUse guard(state(), "Workspace::reserve");
  api::check_layer(layer, state_->options);
  static_cast<void>(state_->local(layer, nullptr));
}

std::int64_t Workspace::nbytes() const {
  const api::InUse guard(state(), "Workspace::nbytes");
  std::int64_t sum = state_->symmetric.bytes();
  for (const auto& [key, local] : state_->locals) sum += local.ranks.bytes();
  return sum;
}

const Config& Workspace::config() const { return state().config; }
const WorkspaceOptions& Workspace::options() const { return state().options; }
Status Workspace::status() const {
  const api::InUse guard(state(), "Workspace::status");
  return state_->backend->status();
}

void Workspace::check() const {
  const api::InUse guard(state(), "Workspace::check");
  const Status status = state_->backend->status();
  if (status.kind == StatusKind::deadline_exceeded) throw DeadlineExceeded(status.sentence());
  if (status.kind != StatusKind::ok) throw RoutingError(status.sentence());
}

void Workspace::reset() {
  const api::InUse guard(state(), "Workspace::reset");
  state_->backend->reset();
  state_->clear_control();
}

api::WorkspaceState& Workspace::state() const { return api::owned(state_, "workspace"); }

}  // namespace mok
