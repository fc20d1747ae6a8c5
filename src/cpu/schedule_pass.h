// SPDX-License-Identifier: Apache-2.0
// The pass that gathers expert ids from all ranks and builds every rank's schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cpu/launch.h"

namespace mok::cpu {

/// One rank's ids as the caller brings them, T rows of K, and where the gathered ids and the scratch lie.
struct RoutingLaunch {
  const void* topk_experts = nullptr;
  bool is_int64 = false;
  std::int64_t num_tokens = 0;
  std::int32_t* gathered = nullptr;     ///< [R,Tmax,K]
  std::int32_t* histogram = nullptr;    ///< [R,E]
  std::int32_t* expert_tile = nullptr;  ///< [E]
};

/// One thread per rank: stages its ids, waits for its peers, pulls theirs and fills
/// launch.ranks[r].view.tables.
[[nodiscard]] std::optional<WaitFailure> run_schedule(const Launch& launch,
                                                      std::span<const RoutingLaunch> routing);

}  // namespace mok::cpu
