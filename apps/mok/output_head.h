// SPDX-License-Identifier: Apache-2.0
// The next byte: a linear projection to 256 logits, and their cross-entropy.
#pragma once

#include <cstdint>
#include <vector>

#include "mok/parameter.h"

namespace mok::tool {

template <class Scalar>
class OutputHead {
 public:
  OutputHead(Eigen::Index hidden, std::uint64_t seed);

  /// The mean cross-entropy in nats of the byte after each row of h [N, H].
  [[nodiscard]] double forward(const RowMatrix<Scalar>& h, const std::vector<std::uint8_t>& targets,
                               int threads);
  /// Sets the gradients of weight() and bias(), and d_h [N, H], of the last forward's mean.
  void backward(const RowMatrix<Scalar>& h, const std::vector<std::uint8_t>& targets, RowMatrix<Scalar>& d_h,
                int threads);

  [[nodiscard]] Parameter<Scalar>& weight() { return weight_; }
  [[nodiscard]] Parameter<Scalar>& bias() { return bias_; }

 private:
  Parameter<Scalar> weight_;         ///< [256, H]
  Parameter<Scalar> bias_;           ///< [1, 256]
  RowMatrix<Scalar> probabilities_;  ///< [N, 256]; backward turns them into the gradient of the logits
};

}  // namespace mok::tool
