// SPDX-License-Identifier: Apache-2.0
// One mixture-of-experts layer, forward and backward, on two virtual ranks of this process.
#include <cmath>
#include <cstdio>
#include <deque>
#include <vector>

#include <mok/mok.h>

constexpr int R = 2, E = 4, El = E / R, K = 2;  // ranks; experts in all, and per rank; experts per token
constexpr std::int64_t T = 3, H = 64, I = 128;  // tokens of a rank, hidden size, intermediate size

std::deque<std::vector<mok::bfloat16>> storage;  // what the views point to: the library owns no tensor

/// A tensor of numbers between -scale and scale.
mok::TensorView tensor(std::initializer_list<std::int64_t> shape, float scale = 0) {
  std::size_t size = 1;
  for (const std::int64_t n : shape) size *= static_cast<std::size_t>(n);
  std::vector<mok::bfloat16>& values = storage.emplace_back(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] =
        mok::to_bfloat16(scale * std::sin(0.7f * static_cast<float>(i) + static_cast<float>(storage.size())));
  }
  return {values.data(), shape};
}

int main() {
  // The router's choice, the same on both ranks here: [T,K] experts and their weights.
  const std::int32_t topk_experts[] = {0, 3, 2, 1, 3, 2};
  const float router_weights[] = {0.5f, 0.5f, 0.9f, 0.1f, 1.5f, -0.5f};
  float d_router_weights[R][T * K];

  std::vector<mok::ConstTensorView> ids;
  std::vector<mok::ForwardInput> forward(R);
  std::vector<mok::BackwardInput> backward(R);
  for (int r = 0; r < R; ++r) {
    ids.push_back({topk_experts, {T, K}});
    forward[r].x = tensor({T, H}, 1);
    forward[r].router_weights = {router_weights, {T, K}};
    forward[r].routed = {tensor({El, I, H}, 0.2f), tensor({El, I, H}, 0.2f), tensor({El, H, I}, 0.2f)};
    forward[r].out = tensor({T, H});

    backward[r].grad_output = tensor({T, H}, 1);
    backward[r].x = forward[r].x;
    backward[r].router_weights = forward[r].router_weights;
    backward[r].routed = forward[r].routed;
    backward[r].d_x = tensor({T, H});
    backward[r].d_router_weights = {d_router_weights[r], {T, K}};
    backward[r].d_routed = {tensor({El, I, H}), tensor({El, I, H}), tensor({El, H, I})};
  }

  mok::Workspace workspace({}, {.ranks = R, .max_tokens = T, .hidden_size = H, .topk = K, .device = {}});
  const mok::Schedule schedule = mok::build_schedule(workspace, ids, E);
  const mok::ForwardContext context = mok::forward(workspace, schedule, forward);
  mok::backward(workspace, schedule, context, backward);
  workspace.check();  // throws if a rank got more rows than it can hold

  // The output is linear in the router weights, so that both numbers are the same but for the rounding to
  // bf16.
  bool agree = true;
  for (int r = 0; r < R; ++r) {
    const auto* out = static_cast<const mok::bfloat16*>(forward[r].out.data);
    const auto* grad_output = static_cast<const mok::bfloat16*>(backward[r].grad_output.data);
    float by_output = 0, by_weights = 0;
    for (int i = 0; i < T * H; ++i) by_output += mok::to_float(out[i]) * mok::to_float(grad_output[i]);
    for (int i = 0; i < T * K; ++i) by_weights += router_weights[i] * d_router_weights[r][i];
    std::printf("rank %d: sum of out * grad_output = %.3f, of router_weights * d_router_weights = %.3f\n", r,
                by_output, by_weights);
    agree = agree && std::abs(by_output - by_weights) < 0.02f * std::abs(by_output);
  }
  std::printf(agree ? "The gradients agree with the output.\n"
                    : "The gradients do not agree with the output.\n");
  return agree ? 0 : 1;
}
