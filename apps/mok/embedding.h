// SPDX-License-Identifier: Apache-2.0
// A context of bytes as one vector: the learned vectors of its bytes, side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "mok/parameter.h"

namespace mok::tool {

/// N contexts and the byte after each.
struct Batch {
  RowMatrix<std::uint8_t> contexts;   ///< [N, C], oldest byte first
  std::vector<std::uint8_t> targets;  ///< [N]
};

template <class Scalar>
class Embedding {
 public:
  /// C divides H; each byte of a context has H / C numbers.
  Embedding(Eigen::Index context, Eigen::Index hidden, std::uint64_t seed);

  /// x becomes [N, H].
  void forward(const RowMatrix<std::uint8_t>& contexts, RowMatrix<Scalar>& x, int threads) const;
  /// Sets table().grad from d_x [N, H].
  void backward(const RowMatrix<std::uint8_t>& contexts, const RowMatrix<Scalar>& d_x);

  [[nodiscard]] Parameter<Scalar>& table() { return table_; }

 private:
  Eigen::Index context_;
  Eigen::Index hidden_;
  Parameter<Scalar> table_;  ///< [256, H / C]
};

}  // namespace mok::tool
