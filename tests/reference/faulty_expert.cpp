// SPDX-License-Identifier: Apache-2.0
#include "faulty_expert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

namespace mok::reference {
namespace {

constexpr std::int64_t kStep = 64;

// A few running sums instead of one, as matrix units have.
float dot(const float* a, const float* b, std::int64_t size) {
  constexpr std::int64_t kLanes = 8;
  float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < size; ++i) lanes[i % kLanes] += a[i] * b[i];
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

void add_scaled(float factor, const float* x, std::int64_t size, float* sum) {
  for (std::int64_t i = 0; i < size; ++i) sum[i] += factor * x[i];
}

}  // namespace

float float_to_bf16(float value) {
  if (std::isnan(value)) return value;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
}

float FaultyExpert::sigmoid(float g) const {
  if (has(Fault::tanh_for_sigmoid)) return std::tanh(g);
  if (has(Fault::approximate_sigmoid)) {
    int exponent = 0;
    const float fraction = std::frexp(std::tanh(0.5f * g), &exponent);
    return 0.5f + 0.5f * std::ldexp(std::nearbyint(fraction * 0x1p11f) * 0x1p-11f, exponent);
  }
  return 1.0f / (1.0f + std::exp(-g));
}

float FaultyExpert::limited_gate(float g) const { return p_.swiglu_limit && g > limit() ? limit() : g; }

float FaultyExpert::limited_up(float u) const {
  if (p_.swiglu_limit && u > limit()) return limit();
  if (p_.swiglu_limit && u < -limit() && !has(Fault::one_sided_up_limit)) return -limit();
  return u;
}

void FaultyExpert::row(const float* x, const float* d_out, float w, const ExpertView& e, RowFaults faults,
                       float* y, float* d_x, float& d_w) const {
  const std::int64_t hidden = p_.hidden, width = e.intermediate;
  Floats g(index(width)), u(index(width)), hd(index(width)), hw(index(width));
  for (std::int64_t i = 0; i < width; ++i) {
    const bool short_sum = has(Fault::k_step_missing) && faults.in_tile && i < kFaultTile;
    g[index(i)] = float_to_bf16(dot(x, e.gate + i * hidden, short_sum ? hidden - kStep : hidden));
    u[index(i)] = float_to_bf16(dot(x, e.up + i * hidden, hidden));
    if (has(Fault::gate_and_up_swapped)) std::swap(g[index(i)], u[index(i)]);
    const float gate = limited_gate(g[index(i)]);
    hd[index(i)] = float_to_bf16(gate * sigmoid(gate) * limited_up(u[index(i)]));
    hw[index(i)] = has(Fault::unweighted_down_gradient) ? hd[index(i)] : float_to_bf16(w * hd[index(i)]);
  }
  for (std::int64_t h = 0; h < hidden; ++h) y[h] = float_to_bf16(dot(hd.data(), e.down + h * width, width));

  Floats d_raw(index(width)), d_gate(index(width)), d_up(index(width));
  const bool short_sum = has(Fault::d_hidden_k_step_missing) && faults.in_tile;
  for (std::int64_t h = 0; h < (short_sum ? hidden - kStep : hidden); ++h) {
    add_scaled(d_out[h], e.down + h * width, width, d_raw.data());
  }
  elementwise_backward(d_raw, w, g, u, hd, d_gate, d_up, d_w);

  Floats sum(index(hidden), 0.0f);
  for (std::int64_t i = 0; i < width; ++i) {
    add_scaled(d_gate[index(i)], e.gate + i * hidden, hidden, sum.data());
  }
  for (std::int64_t i = 0; i < width && !has(Fault::d_x_without_up); ++i) {
    add_scaled(d_up[index(i)], e.up + i * hidden, hidden, sum.data());
  }
  std::transform(sum.begin(), sum.end(), d_x, float_to_bf16);
  if (faults.gradient_missing) return;
  for (std::int64_t i = 0; i < width; ++i) add_scaled(d_gate[index(i)], x, hidden, e.d_gate + i * hidden);
  for (std::int64_t i = 0; i < width; ++i) add_scaled(d_up[index(i)], x, hidden, e.d_up + i * hidden);
  for (std::int64_t h = 0; h < hidden; ++h) add_scaled(d_out[h], hw.data(), width, e.d_down + h * width);
}

void FaultyExpert::elementwise_backward(const Floats& d_raw, float w, const Floats& g, const Floats& u,
                                        const Floats& hd, Floats& d_gate, Floats& d_up, float& d_w) const {
  d_w = 0.0f;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float d_hidden = w * d_raw[i];
    float d_for_w = has(Fault::d_w_from_weighted_d_hidden) ? d_hidden : d_raw[i];
    if (has(Fault::d_w_from_rounded_d_hidden)) d_for_w = float_to_bf16(d_for_w);
    d_w += d_for_w * hd[i];

    const float gate = limited_gate(g[i]), up = limited_up(u[i]), s = sigmoid(gate);
    const float derivative = has(Fault::short_silu_derivative) ? s : s + gate * s * (1.0f - s);
    const bool gate_passes = !p_.swiglu_limit || g[i] <= limit();
    const bool up_passes = !p_.swiglu_limit || (-limit() <= u[i] && u[i] <= limit());
    const float value = float_to_bf16(d_hidden * up * derivative);
    d_gate[i] = gate_passes ? value : has(Fault::mask_multiplied) ? 0.0f * value : 0.0f;
    d_up[i] =
        up_passes ? float_to_bf16((has(Fault::unweighted_d_up) ? d_raw[i] : d_hidden) * (gate * s)) : 0.0f;
  }
}

std::string_view fault_name(Fault fault) {
  static constexpr std::string_view kNames[] = {"none",
                                                "tanh_for_sigmoid",
                                                "approximate_sigmoid",
                                                "route_left_out",
                                                "weight_applied_twice",
                                                "gate_and_up_swapped",
                                                "row_shifted",
                                                "k_step_missing",
                                                "dropped_route_times_zero",
                                                "one_sided_up_limit",
                                                "d_w_from_weighted_d_hidden",
                                                "d_w_from_rounded_d_hidden",
                                                "d_hidden_k_step_missing",
                                                "mask_multiplied",
                                                "short_silu_derivative",
                                                "unweighted_d_up",
                                                "d_x_without_up",
                                                "unweighted_down_gradient",
                                                "gradient_row_missing",
                                                "shared_gradient_row_missing"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Fault::shared_gradient_row_missing) + 1);
  return kNames[static_cast<std::size_t>(fault)];
}

}  // namespace mok::reference
