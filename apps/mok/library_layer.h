// SPDX-License-Identifier: Apache-2.0
// The library's layer on virtual ranks, as the language model's expert layer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <mok/layer.h>
#include <mok/workspace.h>

#include "mok/expert_layer.h"
#include "mok/layer_setup.h"

namespace mok::tool {

/// A batch of n tokens is cut into R parts in order: ceil(n / R) tokens for a rank, fewer or none for the
/// last.
///
/// Expert weights are f32 master copies, rounded to bf16 for each forward. Their gradients are taken as f32:
/// they are the optimizer's input, and one rounding to bf16 less costs no more than 2 bytes a weight.
class LibraryLayer final : public ExpertLayer<float> {
 public:
  /// \param shape its tokens are the most that a rank gets.
  /// \throws mok::InvalidArgument
  LibraryLayer(const LayerSizes& shape, std::int64_t workers, std::uint64_t seed, int threads);

  void forward(const RowMatrix<float>& x, const Routing<float>& routing, RowMatrix<float>& out) override;
  void backward(const RowMatrix<float>& x, const Routing<float>& routing, const RowMatrix<float>& grad_out,
                RowMatrix<float>& d_x, RowMatrix<float>& d_router_weights) override;
  [[nodiscard]] std::vector<Parameter<float>*> parameters() override { return {&gate_, &up_, &down_}; }

  /// Whether any gradient of expert e is not zero.
  [[nodiscard]] bool has_gradient(int expert) const;
  /// Frobenius norm of expert e's gradients.
  [[nodiscard]] double gradient_norm(int expert) const;

 private:
  /// Rows of a batch of n tokens that rank r has: first and count.
  struct Rows {
    std::int64_t first, count;
  };
  [[nodiscard]] Rows rows_of(int rank, std::int64_t n) const;
  [[nodiscard]] ExpertWeights weights_of(int rank) const;
  [[nodiscard]] WeightGradients gradients_of(int rank);
  void round(const RowMatrix<float>& source, std::vector<bfloat16>& target) const;
  void widen(const std::vector<bfloat16>& source, RowMatrix<float>& target) const;

  LayerSizes shape_;
  int threads_;
  Workspace workspace_;
  Parameter<float> gate_;  ///< [E * I, H]
  Parameter<float> up_;    ///< [E * I, H]
  Parameter<float> down_;  ///< [E * H, I]
  std::vector<bfloat16> gate_bf16_, up_bf16_, down_bf16_;
  std::vector<bfloat16> x_, out_, grad_out_, d_x_;  ///< [N, H]
  std::optional<Schedule> schedule_;
  std::optional<ForwardContext> context_;
};

}  // namespace mok::tool
