// SPDX-License-Identifier: Apache-2.0
#include "api/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "api/cuda_timeline.h"
#include "api/outcome.h"
#include "api/refuse.h"
#include "api/state.h"
#include "api/tensor_check.h"
#include "cuda/host/cuda_check.h"
#include "cuda/host/device.h"
#include "cuda/host/launch.h"
#include "cuda/host/memory.h"
#include "cuda/host/stream_order.h"

namespace mok::api {
namespace {

/// Addresses that CUDA has said to be the GPU's: asking costs about as much as all other checks of a tensor.
class KnownAddresses {
 public:
  [[nodiscard]] bool has(const void* address) const { return places_[place_of(address)] == address; }
  void add(const void* address) { places_[place_of(address)] = address; }

 private:
  static constexpr std::size_t kPlaces = 256;
  /// Multiplicative hashing: the upper bits of a product with the golden ratio depend on all bits.
  static std::size_t place_of(const void* address) {
    constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;
    return (reinterpret_cast<std::uintptr_t>(address) * kGoldenRatio >> 32) % kPlaces;
  }
  std::array<const void*, kPlaces> places_{};
};

/// Which layer the last passes were of: a failure's counter has a name in the layout of its layer alone.
class RecentPasses {
 public:
  void add(std::uint64_t epoch, const program::Dims& dims) { passes_[epoch % kPasses] = {epoch, dims}; }
  /// The latest one where the pass is not known, as those of a replayed graph.
  [[nodiscard]] const program::Dims& of(std::uint64_t epoch, std::uint64_t latest) const {
    const Pass& pass = passes_[epoch % kPasses];
    return pass.epoch == epoch ? pass.dims : passes_[latest % kPasses].dims;
  }

 private:
  struct Pass {
    std::uint64_t epoch = 0;
    program::Dims dims;
  };
  static constexpr std::size_t kPasses = 64;
  std::array<Pass, kPasses> passes_{};
};

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

class CudaBackend final : public Backend {
 public:
  /// The GPU must be the current device.
  CudaBackend(const Config& config, const WorkspaceOptions& options)
      : config_(config),
        ranks_(options.ranks),
        ordinal_(options.device.index),
        pool_(cuda::MemoryPool::make(ordinal_)) {}

  group::VirtualGroup symmetric_memory(int ranks, std::int64_t bytes) override;
  group::RankMemory local_memory(int ranks, std::int64_t bytes) override {
    return cuda::device_memory(ordinal_, ranks, bytes, "local memory");
  }
  group::RankMemory call_memory(CallMemory kind, int ranks, std::int64_t bytes, void* stream) override {
    const bool is_schedule = kind == CallMemory::schedule;
    return pool_->allocate(ranks, bytes, is_schedule ? "a schedule" : "a forward context", stream_of(stream));
  }
  void zero(std::span<const std::span<std::byte>> regions) override;

  std::string problem_of_memory(const void* data) override;
  void check_can_allocate(void* stream) override;
  void check_usable() override {
    if (pinned_.has_failed()) throw_unusable(known_status());
  }

  void build_schedule(const ScheduleCall& call) override;
  void run_pass(const PassCall& call) override;

  Status status() override {
    const cuda::CurrentDevice current(ordinal_);
    order_.synchronize();
    return known_status();
  }
  void reset() override;

 private:
  /// What the GPU has told so far.
  [[nodiscard]] Status known_status() const;

  const Config& config_;  ///< the workspace's
  int ranks_;
  int ordinal_;
  std::shared_ptr<cuda::MemoryPool> pool_;
  cuda::PinnedStatus pinned_;
  cuda::StreamOrder order_;
  KnownAddresses known_;
  // Counted on the host for messages alone: the GPU counts its own, and replays of a graph are not seen here.
  std::uint64_t epoch_ = 0;
  std::uint64_t schedule_epoch_ = 0;
  program::Dims schedule_dims_;
  RecentPasses recent_;
};

group::VirtualGroup CudaBackend::symmetric_memory(int ranks, std::int64_t bytes) {
  group::RankMemory memory = cuda::device_memory(ordinal_, ranks, bytes, "symmetric memory");
  const std::int64_t table_bytes = ranks * static_cast<std::int64_t>(sizeof(std::byte*));
  group::RankMemory table = cuda::device_memory(ordinal_, 1, table_bytes, "the table of ranks");
  const cuda::CurrentDevice current(ordinal_);
  cuda::check(
      cudaMemcpy(table.of(0), memory.bases(), static_cast<std::size_t>(table_bytes), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  // From pageable memory it may return before the copy has reached the device.
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return {std::move(memory), std::move(table)};
}

void CudaBackend::zero(std::span<const std::span<std::byte>> regions) {
  const cuda::CurrentDevice current(ordinal_);
  // A stream that waits for no other: the default stream would wait for all of the caller's.
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cudaError_t result = cudaSuccess;
  for (const std::span<std::byte> region : regions) {
    if (result == cudaSuccess) result = cudaMemsetAsync(region.data(), 0, region.size(), stream);
  }
  if (result == cudaSuccess) result = cudaStreamSynchronize(stream);
  static_cast<void>(cudaStreamDestroy(stream));
  cuda::check(result, "cudaMemsetAsync");
}

std::string CudaBackend::problem_of_memory(const void* data) {
  if (known_.has(data)) return {};
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  const bool on_device = attributes.type == cudaMemoryTypeDevice;
  if ((on_device && attributes.device == ordinal_) || attributes.type == cudaMemoryTypeManaged) {
    known_.add(data);
    return {};
  }
  const std::string place = on_device ? fmt::format("the memory of cuda:{}", attributes.device)
                            : attributes.type == cudaMemoryTypeHost ? "pinned host memory"
                                                                    : "host memory";
  return fmt::format("points to {}; it must point to the memory of cuda:{}", place, ordinal_);
}

void CudaBackend::check_can_allocate(void* stream) {
  const cuda::CurrentDevice current(ordinal_);
  if (cuda::capture_of(stream_of(stream)) == 0) return;
  refuse(
      "the local memory for this layer is not allocated yet, and the stream is being captured; call "
      "Workspace::reserve, or run the layer once, before the capture");
}

Status CudaBackend::known_status() const {
  if (pinned_.has_failed()) {
    const cuda::FailureRecord& record = pinned_.read().failure;
    const double seconds =
        record.is_arrival != 0 ? config_.arrival_deadline_seconds : config_.progress_deadline_seconds;
    return deadline_status(record, recent_.of(record.epoch, epoch_), seconds);
  }
  if (schedule_epoch_ == 0) return {};
  return routing_status(pinned_.read().schedule, schedule_dims_, schedule_epoch_);
}

void CudaBackend::reset() {
  const cuda::CurrentDevice current(ordinal_);
  order_.synchronize();
  pinned_.clear();
  epoch_ = 0;
  schedule_epoch_ = 0;
}

void CudaBackend::build_schedule(const ScheduleCall& call) {
  const cuda::CurrentDevice current(ordinal_);
  const ScheduleState& schedule = *call.schedule;
  cuda::ScheduleLaunch launch;
  launch.ranks = call.views;
  launch.status = pinned_.on_device();
  launch.stream = call.stream;
  for (std::size_t r = 0; r < call.ids.size(); ++r) {
    std::byte* const base = schedule.memory.of(static_cast<int>(r));
    const RankIds& ids = call.ids[r];
    launch.routing.push_back({ids.data, ids.is_int64, ids.num_tokens, schedule.layout.gathered.at(base),
                              schedule.layout.histogram.at(base), schedule.layout.expert_tile.at(base),
                              base + schedule.layout.bytes});
  }
  order_.begin(stream_of(call.stream));
  cuda::enqueue_schedule(launch);
  order_.end(stream_of(call.stream));
  schedule_epoch_ = ++epoch_;
  schedule_dims_ = schedule.dims[0];
  recent_.add(epoch_, schedule_dims_);
}

void CudaBackend::run_pass(const PassCall& call) {
  const cuda::CurrentDevice current(ordinal_);
  const program::LocalLayout& at = call.local->layout;
  cuda::PassLaunch launch;
  launch.pass = call.pass;
  const bool backward = call.pass == program::Pass::backward;
  const std::optional<int>& comm_sms = backward ? config_.bwd_num_comm_sms : config_.fwd_num_comm_sms;
  launch.comm_ctas = comm_sms ? std::max(1, *comm_sms / ranks_) : 0;
  launch.arrival_deadline_seconds = config_.arrival_deadline_seconds;
  launch.progress_deadline_seconds = config_.progress_deadline_seconds;
  launch.status = pinned_.on_device();
  if (call.timeline != nullptr) launch.timeline = static_cast<CudaTimeline*>(call.timeline)->on_device();
  launch.faults = call.faults;
  launch.staged = call.staged;
  launch.multiply_only = call.multiply_only;
  launch.stream = call.stream;
  launch.ranks.reserve(call.views.size());
  for (std::size_t r = 0; r < call.views.size(); ++r) {
    std::byte* const base = call.local->ranks.of(static_cast<int>(r));
    const cuda::LocalControl control{at.counters.at(base), at.counter_set.at(base), at.tickets.at(base),
                                     at.watermark.at(base), at.arrivals.at(base)};
    launch.ranks.push_back({call.views[r], call.schedule->num_tokens(static_cast<int>(r)), control});
  }
  order_.begin(stream_of(call.stream));
  cuda::enqueue_pass(launch);
  order_.end(stream_of(call.stream));
  call.schedule->memory.used_on(call.stream);
  call.context->memory.used_on(call.stream);
  recent_.add(++epoch_, call.views[0].dims);
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const Config& config, const WorkspaceOptions& options) {
  const cuda::DeviceAnswer answer = cuda::ask_device(options.device.index);
  if (!answer.problem.empty()) refuse("device is {}, but {}", name_of(options.device), answer.problem);
  const cuda::CurrentDevice current(options.device.index);
  return std::make_unique<CudaBackend>(config, options);
}

std::unique_ptr<TimelineState> make_cuda_timeline(const Device& device, std::int64_t capacity) {
  const cuda::DeviceAnswer answer = cuda::ask_device(device.index);
  if (!answer.problem.empty()) refuse("device is {}, but {}", name_of(device), answer.problem);
  return std::make_unique<CudaTimeline>(device, capacity);
}

BackendInfo cuda_backend_info() {
  const auto [facts, problem] = cuda::ask_device(0);
  if (!problem.empty()) return {"cuda", false, problem};
  return {"cuda", true, fmt::format("{}, {} SMs", facts.name, facts.num_sms)};
}

}  // namespace mok::api
