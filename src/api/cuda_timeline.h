// SPDX-License-Identifier: Apache-2.0
// A timeline whose records the kernels write.
#pragma once

#include <cstdint>
#include <vector>

#include "api/timeline_state.h"
#include "cuda/pipeline/control.h"
#include "group/rank_memory.h"

namespace mok::api {

class CudaTimeline final : public TimelineState {
 public:
  CudaTimeline(const Device& device, std::int64_t capacity);  ///< \throws mok::Error

  [[nodiscard]] cuda::Timeline on_device() const;
  std::vector<TimelineEvent> events() override;
  std::int64_t dropped() override;
  void clear() override;

 private:
  /// Waits for the device. Events that were tried to be written.
  std::uint32_t count();

  std::uint32_t capacity_;
  group::RankMemory records_;
  group::RankMemory count_;
};

}  // namespace mok::api
