// SPDX-License-Identifier: Apache-2.0
// Faults that tests plant in a group of ranks.
#pragma once

#include <cstdint>

namespace mok::group {

/// What tests break on purpose. A rank named here is alive but never does what its peers wait for.
struct FaultPlan {
  int never_ready_rank = -1;  ///< never raises its ready flags
  int late_rank = -1;         ///< raises them after `late_seconds`
  double late_seconds = 0;
  int stuck_rank = -1;  ///< its compute workers stop claiming after `stuck_after` tasks of the pass
  std::int64_t stuck_after = 0;
};

}  // namespace mok::group
