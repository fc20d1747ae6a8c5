// SPDX-License-Identifier: Apache-2.0
// Threads that begin together or not at all.
#pragma once

#include <functional>
#include <vector>

namespace mok::cpu {

/// Runs each body on a thread of its own and returns when all have. No body begins before every thread
/// exists: where the system gives no more threads, none has begun, and nobody waits for one that never came.
/// \throws mok::Error in that case.
void run_together(const std::vector<std::function<void()>>& bodies);

}  // namespace mok::cpu
