// SPDX-License-Identifier: Apache-2.0
// One expert over its rows, forward and backward: the formulas of "design: the mathematics", line by line.
#pragma once

#include <optional>
#include <vector>

#include "reference/matrix.h"
#include "reference/rounding.h"

namespace mok::reference {

/// Where the formulas say bf16(...) or f32(...). Switched off, both are the identity.
struct Rounder {
  double bf16(double value) const { return on ? round_to_bfloat16(value) : value; }
  double f32(double value) const { return on ? round_to_float(value) : value; }
  Matrix bf16(Matrix m) const;

  bool on = false;
};

/// The weights of one expert.
struct Expert {
  Matrix gate;  ///< Wg [I, H]
  Matrix up;    ///< Wu [I, H]
  Matrix down;  ///< Wd [H, I]
};

/// What the forward pass leaves behind, rounded as it is stored.
struct Activations {
  Matrix gate;    ///< G [rows, I], before the limit
  Matrix up;      ///< U [rows, I], before the limit
  Matrix hidden;  ///< Hd [rows, I]
  Matrix y;       ///< [rows, H], before the router weight
};

/// What the backward pass yields. Weight gradients are not rounded yet: how they are handed out is the
/// layer's choice.
struct Gradients {
  Matrix d_x;                            ///< dx_route [rows, H]
  std::vector<double> d_router_weights;  ///< d_w [rows]
  Matrix d_gate;                         ///< dWg [I, H]
  Matrix d_up;                           ///< dWu [I, H]
  Matrix d_down;                         ///< dWd [H, I]
};

/// The arithmetic that all experts of an evaluation share.
struct Arithmetic {
  std::optional<double> swiglu_limit;  ///< L
  Rounder round;
  int threads = 0;  ///< 0 = as many as the machine has
};

/// The forward pass of an expert over x [rows, H].
Activations expert_forward(const Matrix& x, const Expert& expert, const Arithmetic& arithmetic);

/// The backward pass of an expert over x [rows, H], the gradient dO [rows, H] of the layer's output at these
/// rows (not multiplied by the router weight) and the router weights w [rows].
Gradients expert_backward(const Matrix& x, const Matrix& d_out, const std::vector<double>& router_weights,
                          const Expert& expert, const Activations& act, const Arithmetic& arithmetic);

}  // namespace mok::reference
