// SPDX-License-Identifier: Apache-2.0
// What TMA needs to know of the operands in global memory.
#pragma once

#include <cstdint>

#include "cuda/pipeline/plan.h"

namespace mok::cuda {

/// Descriptions of a rank's operands. Those of operands that the pass does not have are zero. Encoding one is
/// host arithmetic of about 0.2 us, cheaper than a cache of them would be to keep right. \param num_tokens T,
/// rows of the caller's x \throws mok::Error when the driver refuses one.
void encode_maps(RankPlan& plan, std::int64_t num_tokens);

}  // namespace mok::cuda
