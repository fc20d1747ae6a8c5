// SPDX-License-Identifier: Apache-2.0
// One row through one expert in float32, forward and backward, with mistakes to order. Part of the faulty
// layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "faulty_layer.h"
#include "reference/moe_reference.h"

namespace mok::reference {

using Floats = std::vector<float>;

/// Rows, and columns of G, that a fault of one tile reaches.
inline constexpr std::int64_t kFaultTile = 128;

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The nearest bf16 number, ties to even.
float float_to_bf16(float value);

/// An expert's weights and the f32 sums of its gradients, laid out as in the problem.
struct ExpertView {
  const float *gate, *up, *down;
  float *d_gate, *d_up, *d_down;
  std::int64_t intermediate;
};

/// Which local faults a row shows.
struct RowFaults {
  bool in_tile = false;
  bool gradient_missing = false;
};

class FaultyExpert {
 public:
  FaultyExpert(const Problem& problem, Fault fault) : p_(problem), fault_(fault) {}

  /// From x [H], dO [H] and the router weight: writes y [H], dx_route [H] and d_w, adds to the weight
  /// gradients.
  void row(const float* x, const float* d_out, float w, const ExpertView& e, RowFaults faults, float* y,
           float* d_x, float& d_w) const;

 private:
  void elementwise_backward(const Floats& d_raw, float w, const Floats& g, const Floats& u, const Floats& hd,
                            Floats& d_gate, Floats& d_up, float& d_w) const;
  bool has(Fault fault) const { return fault_ == fault; }
  float sigmoid(float g) const;
  float limited_gate(float g) const;
  float limited_up(float u) const;
  float limit() const { return static_cast<float>(*p_.swiglu_limit); }

  const Problem& p_;
  Fault fault_;
};

}  // namespace mok::reference
