// SPDX-License-Identifier: Apache-2.0
// Arithmetic with one rounding per call and no contraction, the same on host and device: elementwise bodies
// written in it round alike wherever they are inlined. (The host build adds -ffp-contract=off for the
// operators.)
#pragma once

#include <mok/host_device.h>

namespace mok::ops {

MOK_HOST_DEVICE inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

MOK_HOST_DEVICE inline float mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

MOK_HOST_DEVICE inline float add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

MOK_HOST_DEVICE inline float div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

#if defined(__CUDA_ARCH__)

/// e^x by the special-function unit: within 2^-22 of it relative, for |x| below 20.
__device__ __forceinline__ float approximate_exp(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(mul(x, kLog2e)));
  return result;
}

/// 1 / x within 1 ulp.
__device__ __forceinline__ float approximate_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

#endif

}  // namespace mok::ops
