// SPDX-License-Identifier: Apache-2.0
// A byte-level language model around one mixture-of-experts layer:
//   x = embedding(context);  h = x + experts(x);  logits = h W^T + b.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mok/embedding.h"
#include "mok/expert_layer.h"
#include "mok/output_head.h"
#include "mok/router.h"

namespace mok::tool {

struct ModelSizes {
  std::int64_t context = 0;      ///< C, bytes; divides H
  std::int64_t hidden = 0;       ///< H
  std::int64_t experts = 0;      ///< E
  std::int64_t topk = 0;         ///< K
  double balance_factor = 0.01;  ///< of the load-balancing loss
};

/// The tokens of all ranks are one batch, in rank order: every sum over tokens runs over all of them in that
/// order, which is what adding up the ranks' gradients would give, and does not depend on how many ranks
/// there are.
template <class Scalar>
class LanguageModel {
 public:
  /// \param layer may be null: h = x, the same model without experts. It must outlive this.
  LanguageModel(const ModelSizes& sizes, ExpertLayer<Scalar>* layer, std::uint64_t seed, int threads);

  /// The mean cross-entropy in nats, without the load-balancing loss.
  double forward(const Batch& batch);
  /// Gradients of the last forward's cross-entropy plus balance_factor times its load-balancing loss.
  void backward(const Batch& batch);

  /// Null without a layer.
  [[nodiscard]] const Router<Scalar>* router() const { return router_ ? &*router_ : nullptr; }
  /// Every parameter, those of the layer included.
  [[nodiscard]] std::vector<Parameter<Scalar>*> parameters();

 private:
  ModelSizes sizes_;
  ExpertLayer<Scalar>* layer_;
  int threads_;
  Embedding<Scalar> embedding_;
  std::optional<Router<Scalar>> router_;
  OutputHead<Scalar> head_;
  RowMatrix<Scalar> x_, h_, d_h_, d_x_, d_router_weights_;  ///< of the last batch
};

}  // namespace mok::tool
