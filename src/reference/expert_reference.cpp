// SPDX-License-Identifier: Apache-2.0
#include "reference/expert_reference.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace mok::reference {
namespace {

using Limit = std::optional<double>;

// The comparisons are written so that NaN fails them and passes through.
double limited_gate(double gate, const Limit& limit) { return limit && gate > *limit ? *limit : gate; }

double limited_up(double up, const Limit& limit) {
  if (limit && up > *limit) return *limit;
  if (limit && up < -*limit) return -*limit;
  return up;
}

double sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }

double silu(double v) { return v * sigmoid(v); }

double silu_derivative(double v) {
  const double s = sigmoid(v);
  return s + v * s * (1.0 - s);
}

}  // namespace

Matrix Rounder::bf16(Matrix m) const {
  for (double& value : m.values) value = bf16(value);
  return m;
}

Activations expert_forward(const Matrix& x, const Expert& expert, const Arithmetic& arithmetic) {
  const auto& [limit, round, threads] = arithmetic;
  Activations act;
  act.gate = round.bf16(product(x, transposed(expert.gate), threads));
  act.up = round.bf16(product(x, transposed(expert.up), threads));
  act.hidden = Matrix(act.gate.rows, act.gate.cols);
  for (std::size_t i = 0; i < act.hidden.values.size(); ++i) {
    const double gate = limited_gate(act.gate.values[i], limit);
    const double up = limited_up(act.up.values[i], limit);
    act.hidden.values[i] = round.bf16(silu(gate) * up);
  }
  act.y = round.bf16(product(act.hidden, transposed(expert.down), threads));
  return act;
}

Gradients expert_backward(const Matrix& x, const Matrix& d_out, const std::vector<double>& router_weights,
                          const Expert& expert, const Activations& act, const Arithmetic& arithmetic) {
  const auto& [limit, round, threads] = arithmetic;
  const std::int64_t rows = x.rows;
  const std::int64_t intermediate = act.gate.cols;
  Gradients grad;
  grad.d_router_weights.assign(router_weights.size(), 0.0);
  const Matrix d_hidden_raw = product(d_out, expert.down, threads);  // dHraw
  Matrix d_gate(rows, intermediate);                                 // dG
  Matrix d_up(rows, intermediate);                                   // dU
  Matrix weighted_hidden(rows, intermediate);                        // Hw

  for (std::int64_t r = 0; r < rows; ++r) {
    const double weight = router_weights[static_cast<std::size_t>(r)];
    double d_weight = 0.0;
    for (std::int64_t i = 0; i < intermediate; ++i) {
      const double gate = act.gate.row(r)[i];
      const double up = act.up.row(r)[i];
      const double hidden = act.hidden.row(r)[i];
      d_weight += d_hidden_raw.row(r)[i] * hidden;

      const double d_hidden = weight * d_hidden_raw.row(r)[i];
      const double gate_limited = limited_gate(gate, limit);
      const double up_limited = limited_up(up, limit);
      // The masks select: where the limit cut a value off, its gradient is 0 whatever the other factors hold.
      // A NaN satisfies no comparison, so under a limit its own gradient is 0 as well.
      const bool gate_passes = !limit || gate <= *limit;
      const bool up_passes = !limit || (-*limit <= up && up <= *limit);
      d_gate.row(r)[i] =
          gate_passes ? round.bf16(d_hidden * up_limited * silu_derivative(gate_limited)) : 0.0;
      d_up.row(r)[i] = up_passes ? round.bf16(d_hidden * silu(gate_limited)) : 0.0;
      weighted_hidden.row(r)[i] = round.bf16(weight * hidden);
    }
    grad.d_router_weights[static_cast<std::size_t>(r)] = round.f32(d_weight);
  }

  grad.d_x = product(d_gate, expert.gate, threads);
  add_product(d_up, expert.up, grad.d_x, threads);
  grad.d_x = round.bf16(std::move(grad.d_x));

  grad.d_gate = product(transposed(d_gate), x, threads);
  grad.d_up = product(transposed(d_up), x, threads);
  grad.d_down = product(transposed(d_out), weighted_hidden, threads);
  return grad;
}

}  // namespace mok::reference
