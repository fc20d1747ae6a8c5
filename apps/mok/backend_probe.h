// SPDX-License-Identifier: Apache-2.0
// Whether the CPU backend runs here, found out by running it.
#pragma once

#include <string>

namespace mok::tool {

/// "yes: ..." or "no: ..." and why. A small layer runs in a process of its own, so that kernels which this
/// processor cannot execute end that process and not this one. Call it before any thread is started.
std::string probe_cpu_backend();

}  // namespace mok::tool
