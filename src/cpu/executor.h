// SPDX-License-Identifier: Apache-2.0
// Runs a pass: worker threads in the place of SMs, the whole cross-rank protocol live.
#pragma once

#include <optional>

#include "cpu/launch.h"

namespace mok::cpu {

/// All ops at once: communication and compute workers of every rank claim tasks in the program's order and
/// wait on readiness counters. Returns the first wait that ran into its deadline, if one did.
[[nodiscard]] std::optional<WaitFailure> run_fused(const Launch& launch);

/// One op at a time on the calling thread, with everything behind it finished before the next begins; no
/// counter is read. The same task functions and bodies, hence the same bits: what run_fused is compared with.
void run_staged(const Launch& launch);

/// Copies what peers pull in this pass into the rank's symmetric memory.
void stage_inputs(const ops::RankView& view);

}  // namespace mok::cpu
