// SPDX-License-Identifier: Apache-2.0
#include "api/cuda_timeline.h"

#include <algorithm>
#include <iterator>

#include <cuda_runtime_api.h>

#include "cuda/host/cuda_check.h"
#include "cuda/host/device.h"
#include "cuda/host/memory.h"
#include "program/op.h"

namespace mok::api {
namespace {

const char* name_of(cuda::Actor actor) {
  constexpr const char* kNames[] = {"task", "load", "consumer0", "consumer1", "store", "dispatch"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(cuda::Actor::count));
  return actor < cuda::Actor::count ? kNames[static_cast<int>(actor)] : "unknown";
}

TimelineEvent event_of(const cuda::TimelineRecord& record) {
  TimelineEvent event;
  event.rank = record.rank;
  event.worker = record.sm;
  event.actor = name_of(static_cast<cuda::Actor>(record.actor));
  event.op = program::name(static_cast<program::Op>(record.op));
  event.tile = record.tile;
  event.col = record.col;
  event.begin_ns = record.begin_ns;
  event.end_ns = record.end_ns;
  event.bytes = record.bytes;
  return event;
}

}  // namespace

CudaTimeline::CudaTimeline(const Device& device, std::int64_t capacity)
    : TimelineState(device),
      capacity_(static_cast<std::uint32_t>(capacity)),
      records_(cuda::device_memory(
          device.index, 1, capacity * static_cast<std::int64_t>(sizeof(cuda::TimelineRecord)), "a timeline")),
      count_(cuda::device_memory(device.index, 1, sizeof(std::uint32_t), "the count of a timeline")) {
  clear();
}

cuda::Timeline CudaTimeline::on_device() const {
  return {reinterpret_cast<cuda::TimelineRecord*>(records_.of(0)),
          reinterpret_cast<std::uint32_t*>(count_.of(0)), capacity_};
}

std::uint32_t CudaTimeline::count() {
  const cuda::CurrentDevice current(device().index);
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::uint32_t count = 0;
  cuda::check(cudaMemcpy(&count, count_.of(0), sizeof(count), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return count;
}

std::vector<TimelineEvent> CudaTimeline::events() {
  const std::uint32_t held = std::min(count(), capacity_);
  const cuda::CurrentDevice current(device().index);
  std::vector<cuda::TimelineRecord> records(held);
  cuda::check(
      cudaMemcpy(records.data(), records_.of(0), held * sizeof(cuda::TimelineRecord), cudaMemcpyDeviceToHost),
      "cudaMemcpy");
  std::vector<TimelineEvent> events;
  events.reserve(held);
  std::transform(records.begin(), records.end(), std::back_inserter(events), event_of);
  return events;
}

std::int64_t CudaTimeline::dropped() {
  const std::uint32_t tried = count();
  return tried - std::min(tried, capacity_);
}

void CudaTimeline::clear() {
  const cuda::CurrentDevice current(device().index);
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cuda::check(cudaMemset(count_.of(0), 0, sizeof(std::uint32_t)), "cudaMemset");
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // a memset of device memory may not wait
}

}  // namespace mok::api
