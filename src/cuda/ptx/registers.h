// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mok::cuda::ptx {

/// The whole warpgroup gives registers back, down to Count a thread.
template <int Count>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

/// The whole warpgroup takes registers, up to Count a thread; waits until they are there.
template <int Count>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace mok::cuda::ptx
