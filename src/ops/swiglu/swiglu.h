// SPDX-License-Identifier: Apache-2.0
// SwiGLU on one element, forward and backward: the only place that knows its formulas.
#pragma once

#include <limits>

#include <mok/bfloat16.h>

#include "ops/arith.h"
#include "ops/swiglu/exp.h"

namespace mok::ops {

/// Clamp of gate (from above) and up (both sides). Infinite = none: it then changes nothing, not even
/// infinities.
struct SwigluLimit {
  float value = std::numeric_limits<float>::infinity();

  /// min(G, L); NaN passes.
  [[nodiscard]] MOK_HOST_DEVICE float clamp_gate(float gate) const { return gate > value ? value : gate; }
  /// clamp(U, -L, L); NaN passes.
  [[nodiscard]] MOK_HOST_DEVICE float clamp_up(float up) const {
    const float low = up < -value ? -value : up;
    return low > value ? value : low;
  }
  /// Where the clamp lets a gradient through. With a limit, NaN is not within it; the output shows it.
  [[nodiscard]] MOK_HOST_DEVICE bool passes_gate(float gate) const { return is_none() || gate <= value; }
  [[nodiscard]] MOK_HOST_DEVICE bool passes_up(float up) const {
    return is_none() || (-value <= up && up <= value);
  }

 private:
  [[nodiscard]] MOK_HOST_DEVICE bool is_none() const {
    return value == std::numeric_limits<float>::infinity();
  }
};

MOK_HOST_DEVICE inline float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  // Two instructions of the special-function unit instead of some thirty: within 3 ulp, and a bf16 is what is
  // kept. Both go to their limits: 1 for +infinity, 0 for -infinity, NaN for NaN.
  return approximate_reciprocal(add(1.0f, approximate_exp(-x)));
#else
  return div(1.0f, add(1.0f, exp(-x)));
#endif
}

/// silu(G') * U' before it is rounded, from the rounded G and U.
MOK_HOST_DEVICE inline float swiglu_value(bfloat16 gate, bfloat16 up, SwigluLimit limit) {
  const float g = limit.clamp_gate(to_float(gate));
  const float u = limit.clamp_up(to_float(up));
  return mul(mul(g, sigmoid(g)), u);
}

/// Hd = bf16(silu(G') * U'), from the rounded G and U, so that recomputing it from saved G and U gives the
/// same bits.
MOK_HOST_DEVICE inline bfloat16 swiglu(bfloat16 gate, bfloat16 up, SwigluLimit limit) {
  return to_bfloat16(swiglu_value(gate, up, limit));
}

struct SwigluGradient {
  bfloat16 d_gate, d_up;
};

/// dG = bf16(dH * U' * (s + G' s (1 - s))) and dU = bf16(dH * silu(G')), s = sigmoid(G'), each 0 where its
/// clamp holds. The masks select; a product with 0 would turn an infinite dH into NaN.
MOK_HOST_DEVICE inline SwigluGradient swiglu_gradient(float d_hidden, bfloat16 gate, bfloat16 up,
                                                      SwigluLimit limit) {
  const float raw_gate = to_float(gate);
  const float raw_up = to_float(up);
  const float g = limit.clamp_gate(raw_gate);
  const float u = limit.clamp_up(raw_up);
  const float s = sigmoid(g);
  const float silu = mul(g, s);
  const float slope = fma(silu, add(1.0f, -s), s);
  const bfloat16 d_gate = to_bfloat16(mul(mul(d_hidden, u), slope));
  const bfloat16 d_up = to_bfloat16(mul(d_hidden, silu));
  return {limit.passes_gate(raw_gate) ? d_gate : bfloat16{}, limit.passes_up(raw_up) ? d_up : bfloat16{}};
}

}  // namespace mok::ops
