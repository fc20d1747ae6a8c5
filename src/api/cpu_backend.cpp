// SPDX-License-Identifier: Apache-2.0
#include "api/cpu_backend.h"

#include <algorithm>
#include <optional>
#include <thread>

#include <mok/error.h>

#include "api/outcome.h"
#include "api/state.h"
#include "cpu/event_log.h"
#include "cpu/executor.h"
#include "cpu/features.h"
#include "cpu/schedule_pass.h"
#include "cpu/tile_gemm.h"

namespace mok::api {
namespace {

class CpuTimeline final : public TimelineState {
 public:
  CpuTimeline(const Device& device, std::int64_t capacity) : TimelineState(device), log_(capacity) {}

  [[nodiscard]] cpu::EventLog* log() { return &log_; }
  std::vector<TimelineEvent> events() override { return log_.events(); }
  std::int64_t dropped() override { return log_.dropped(); }
  void clear() override { log_.clear(); }

 private:
  cpu::EventLog log_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Config& config, int ranks) : config_(config), ranks_(ranks) {}

  group::VirtualGroup symmetric_memory(int ranks, std::int64_t bytes) override { return {ranks, bytes}; }

  group::RankMemory local_memory(int ranks, std::int64_t bytes) override {
    return group::host_memory(ranks, bytes, "the local memory of a rank");
  }

  group::RankMemory call_memory(CallMemory kind, int ranks, std::int64_t bytes, void* /*stream*/) override {
    const bool is_schedule = kind == CallMemory::schedule;
    return group::host_memory(ranks, bytes,
                              is_schedule ? "the schedule of a rank" : "the forward context of a rank");
  }

  void zero(std::span<const std::span<std::byte>> regions) override {
    for (const std::span<std::byte> region : regions) std::fill(region.begin(), region.end(), std::byte{0});
  }

  std::string problem_of_memory(const void* /*data*/) override { return {}; }
  void check_can_allocate(void* /*stream*/) override {}

  void check_usable() override {
    if (status_.kind == StatusKind::deadline_exceeded) throw_unusable(status_);
  }

  void build_schedule(const ScheduleCall& call) override;
  void run_pass(const PassCall& call) override;

  Status status() override { return status_; }
  void reset() override {
    epoch_ = 0;
    status_ = {};
  }

 private:
  [[nodiscard]] cpu::Settings settings(program::Pass pass, const group::FaultPlan& faults) const;
  [[noreturn]] void abandon(const cpu::WaitFailure& failure);

  const Config& config_;  ///< the workspace's
  int ranks_;
  std::uint64_t epoch_ = 0;  ///< passes begun
  Status status_;
};

cpu::Settings CpuBackend::settings(program::Pass pass, const group::FaultPlan& faults) const {
  cpu::Settings settings;
  const bool backward = pass == program::Pass::backward;
  settings.workers[static_cast<int>(program::Role::communication)] =
      (backward ? config_.bwd_num_comm_sms : config_.fwd_num_comm_sms).value_or(1);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = std::max(1, cores / ranks_);
  settings.workers[static_cast<int>(program::Role::compute)] =
      config_.cpu.num_compute_workers > 0 ? config_.cpu.num_compute_workers : share;
  settings.arrival_deadline_seconds = config_.arrival_deadline_seconds;
  settings.progress_deadline_seconds = config_.progress_deadline_seconds;
  settings.timing_seed = config_.cpu.timing_seed;
  settings.faults = faults;
  return settings;
}

void CpuBackend::abandon(const cpu::WaitFailure& failure) {
  status_ = deadline_status(failure, epoch_);
  throw DeadlineExceeded(status_.sentence());
}

void CpuBackend::build_schedule(const ScheduleCall& call) {
  const ScheduleState& schedule = *call.schedule;
  cpu::Launch launch;
  launch.settings = settings(program::Pass::forward, call.faults);
  std::vector<cpu::RoutingLaunch> routing;
  for (std::size_t r = 0; r < call.views.size(); ++r) {
    launch.ranks.push_back({call.views[r], {}});
    std::byte* const base = schedule.memory.of(static_cast<int>(r));
    const RankIds& ids = call.ids[r];
    routing.push_back({ids.data, ids.is_int64, ids.num_tokens, schedule.layout.gathered.at(base),
                       schedule.layout.histogram.at(base), schedule.layout.expert_tile.at(base)});
  }
  launch.epoch = ++epoch_;
  if (const std::optional<cpu::WaitFailure> failure = cpu::run_schedule(launch, routing)) abandon(*failure);
  status_ = routing_status(*schedule.tables[0].header, schedule.dims[0], epoch_);
}

void CpuBackend::run_pass(const PassCall& call) {
  LocalMemory& local = *call.local;
  cpu::Launch launch;
  launch.pass = call.pass;
  launch.settings = settings(call.pass, call.faults);
  if (call.timeline != nullptr) launch.settings.log = static_cast<CpuTimeline*>(call.timeline)->log();
  for (std::size_t r = 0; r < call.views.size(); ++r) {
    std::byte* const base = local.ranks.of(static_cast<int>(r));
    const std::int64_t set_size = program::CounterLayout::make(call.views[r].dims).size();
    std::uint32_t* const counters = local.layout.counters.at(base);
    cpu::LocalControl control;
    control.counters = counters + local.counter_set * set_size;
    control.spare_counters = counters + (1 - local.counter_set) * set_size;
    control.tickets = local.layout.tickets.at(base);
    control.published = local.layout.watermark.at(base);
    launch.ranks.push_back({call.views[r], control});
  }
  launch.epoch = ++epoch_;
  if (call.staged) {
    cpu::run_staged(launch);
  } else {
    const std::optional<cpu::WaitFailure> failure = cpu::run_fused(launch);
    local.counter_set = 1 - local.counter_set;
    if (failure) {
      call.poison_outputs(MainGrads::poison);
      abandon(*failure);
    }
  }
  const bool refused = call.schedule->tables[0].header->refusal != program::Refusal::none;
  if (refused) call.poison_outputs(MainGrads::keep);
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Config& config, const WorkspaceOptions& options) {
  if (const char* missing = cpu::missing_features(); *missing != '\0') throw Error(missing);
  cpu::check_tile_gemm();
  return std::make_unique<CpuBackend>(config, options.ranks);
}

std::unique_ptr<TimelineState> make_cpu_timeline(const Device& device, std::int64_t capacity) {
  return std::make_unique<CpuTimeline>(device, capacity);
}

}  // namespace mok::api
