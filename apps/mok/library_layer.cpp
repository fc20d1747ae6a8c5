// SPDX-License-Identifier: Apache-2.0
#include "mok/library_layer.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "mok/parallel.h"

namespace mok::tool {

namespace {
// Elements per block of a conversion: enough work for a thread.
constexpr std::int64_t kConversionBlock = 1 << 16;
}  // namespace

LibraryLayer::LibraryLayer(const LayerSizes& shape, std::int64_t workers, std::uint64_t seed, int threads)
    : shape_(shape),
      threads_(threads),
      workspace_(safe_config(shape, workers), workspace_options(shape, {})),
      gate_("gate", shape.experts * shape.intermediate, shape.hidden),
      up_("up", shape.experts * shape.intermediate, shape.hidden),
      down_("down", shape.experts * shape.hidden, shape.intermediate) {
  workspace_.reserve({.num_experts = static_cast<int>(shape.experts),
                      .intermediate_size = shape.intermediate,
                      .shared_intermediate_size = 0});
  gate_.randomize(seed, kGateStream, 1 / std::sqrt(static_cast<double>(shape.hidden)));
  up_.randomize(seed, kUpStream, 1 / std::sqrt(static_cast<double>(shape.hidden)));
  down_.randomize(seed, kDownStream, 1 / std::sqrt(static_cast<double>(shape.intermediate)));
}

LibraryLayer::Rows LibraryLayer::rows_of(int rank, std::int64_t n) const {
  const std::int64_t share = (n + shape_.ranks - 1) / shape_.ranks;
  const std::int64_t first = std::min(n, rank * share);
  return {first, std::min(n - first, share)};
}

ExpertWeights LibraryLayer::weights_of(int rank) const {
  const std::int64_t local = shape_.experts / shape_.ranks;
  const std::int64_t offset = rank * local * shape_.intermediate * shape_.hidden;
  return {.gate = ConstTensorView(gate_bf16_.data() + offset, {local, shape_.intermediate, shape_.hidden}),
          .up = ConstTensorView(up_bf16_.data() + offset, {local, shape_.intermediate, shape_.hidden}),
          .down = ConstTensorView(down_bf16_.data() + offset, {local, shape_.hidden, shape_.intermediate})};
}

WeightGradients LibraryLayer::gradients_of(int rank) {
  const std::int64_t local = shape_.experts / shape_.ranks;
  const std::int64_t offset = rank * local * shape_.intermediate * shape_.hidden;
  return {.gate = TensorView(gate_.grad.data() + offset, {local, shape_.intermediate, shape_.hidden}),
          .up = TensorView(up_.grad.data() + offset, {local, shape_.intermediate, shape_.hidden}),
          .down = TensorView(down_.grad.data() + offset, {local, shape_.hidden, shape_.intermediate})};
}

void LibraryLayer::round(const RowMatrix<float>& source, std::vector<bfloat16>& target) const {
  target.resize(static_cast<std::size_t>(source.size()));
  parallel_ranges(threads_, source.size(), kConversionBlock, [&](std::int64_t begin, std::int64_t count) {
    std::transform(source.data() + begin, source.data() + begin + count, target.data() + begin,
                   [](float value) { return to_bfloat16(value); });
  });
}

void LibraryLayer::widen(const std::vector<bfloat16>& source, RowMatrix<float>& target) const {
  parallel_ranges(threads_, target.size(), kConversionBlock, [&](std::int64_t begin, std::int64_t count) {
    std::transform(source.data() + begin, source.data() + begin + count, target.data() + begin,
                   [](bfloat16 value) { return to_float(value); });
  });
}

void LibraryLayer::forward(const RowMatrix<float>& x, const Routing<float>& routing, RowMatrix<float>& out) {
  const std::int64_t n = x.rows();
  const std::int64_t hidden = shape_.hidden;
  round(x, x_);
  round(gate_.value, gate_bf16_);
  round(up_.value, up_bf16_);
  round(down_.value, down_bf16_);
  out_.resize(x_.size());
  std::vector<ConstTensorView> topk_experts;
  std::vector<ForwardInput> inputs;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const auto [first, count] = rows_of(rank, n);
    topk_experts.emplace_back(routing.topk_experts.data() + first * shape_.topk,
                              std::initializer_list<std::int64_t>{count, shape_.topk});
    inputs.push_back({.x = ConstTensorView(x_.data() + first * hidden, {count, hidden}),
                      .router_weights = ConstTensorView(routing.router_weights.data() + first * shape_.topk,
                                                        {count, shape_.topk}),
                      .routed = weights_of(rank),
                      .shared = {},
                      .out = TensorView(out_.data() + first * hidden, {count, hidden})});
  }
  context_.reset();  // before the next is made, so that one is alive at a time
  schedule_ = build_schedule(workspace_, topk_experts, static_cast<int>(shape_.experts));
  workspace_.check();
  context_ = mok::forward(workspace_, *schedule_, inputs);
  workspace_.check();
  out.resize(n, hidden);
  widen(out_, out);
}

void LibraryLayer::backward(const RowMatrix<float>& x, const Routing<float>& routing,
                            const RowMatrix<float>& grad_out, RowMatrix<float>& d_x,
                            RowMatrix<float>& d_router_weights) {
  const std::int64_t n = x.rows();
  const std::int64_t hidden = shape_.hidden;
  round(grad_out, grad_out_);
  d_x_.resize(x_.size());
  d_router_weights.resize(n, shape_.topk);
  // f32 gradients are main gradients: the library adds to them.
  for (Parameter<float>* parameter : parameters()) parameter->grad.setZero();
  std::vector<BackwardInput> inputs;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const auto [first, count] = rows_of(rank, n);
    inputs.push_back(
        {.grad_output = ConstTensorView(grad_out_.data() + first * hidden, {count, hidden}),
         .x = ConstTensorView(x_.data() + first * hidden, {count, hidden}),
         .router_weights =
             ConstTensorView(routing.router_weights.data() + first * shape_.topk, {count, shape_.topk}),
         .routed = weights_of(rank),
         .shared = {},
         .d_x = TensorView(d_x_.data() + first * hidden, {count, hidden}),
         .d_router_weights = TensorView(d_router_weights.data() + first * shape_.topk, {count, shape_.topk}),
         .d_routed = gradients_of(rank),
         .d_shared = {}});
  }
  mok::backward(workspace_, *schedule_, *context_, inputs);
  workspace_.check();
  d_x.resize(n, hidden);
  widen(d_x_, d_x);
}

bool LibraryLayer::has_gradient(int expert) const {
  const auto any = [&](const Parameter<float>& parameter, std::int64_t rows) {
    const auto block = parameter.grad.middleRows(expert * rows, rows);
    for (Eigen::Index r = 0; r < rows; ++r) {
      if ((block.row(r).array() != 0.0F).any()) return true;
    }
    return false;
  };
  return any(gate_, shape_.intermediate) && any(up_, shape_.intermediate) && any(down_, shape_.hidden);
}

double LibraryLayer::gradient_norm(int expert) const {
  const auto square = [&](const Parameter<float>& parameter, std::int64_t rows) {
    return parameter.grad.middleRows(expert * rows, rows).cast<double>().squaredNorm();
  };
  return std::sqrt(square(gate_, shape_.intermediate) + square(up_, shape_.intermediate) +
                   square(down_, shape_.hidden));
}

}  // namespace mok::tool
