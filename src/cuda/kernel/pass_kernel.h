// SPDX-License-Identifier: Apache-2.0
// The persistent kernel of a pass.
#pragma once

#include <cstddef>

namespace mok::cuda {

/// Its address, for cudaLaunchKernelExC: one parameter, a LaunchParams; a grid of ranks x ctas_per_rank CTAs,
/// at most one per SM; all must run at once where there is more than one rank.
const void* pass_kernel();

/// Threads of a CTA, and bytes of dynamic shared memory.
int pass_kernel_threads();
std::size_t pass_kernel_shared_bytes();

}  // namespace mok::cuda
