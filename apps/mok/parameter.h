// SPDX-License-Identifier: Apache-2.0
// What is trained: values and their gradients.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <Eigen/Core>

#include "mok/random.h"

namespace mok::tool {

/// Every tensor of the tool's own algebra. Matrices own their memory, which Eigen aligns to its packets: so
/// the order of Eigen's vectorised sums follows from the shape alone, never from where a tensor happens to
/// lie.
template <class Scalar>
using RowMatrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Scalar>
struct Parameter {
  std::string name;
  RowMatrix<Scalar> value;
  RowMatrix<Scalar> grad;

  Parameter(std::string its_name, Eigen::Index rows, Eigen::Index cols)
      : name(std::move(its_name)),
        value(RowMatrix<Scalar>::Zero(rows, cols)),
        grad(RowMatrix<Scalar>::Zero(rows, cols)) {}

  /// Independent normal numbers of this standard deviation. `stream` is the parameter's own, so that models
  /// which share a parameter start it alike.
  void randomize(std::uint64_t seed, std::uint64_t stream, double deviation) {
    Random random(seed, stream);
    for (Eigen::Index i = 0; i < value.size(); ++i) {
      value.data()[i] = static_cast<Scalar>(deviation * random.normal());
    }
  }
};

/// The streams of one seed.
enum Stream : std::uint64_t {
  kEmbeddingStream = 1,
  kRouterStream,
  kOutputStream,
  kGateStream,
  kUpStream,
  kDownStream,
  kOrderStream,
};

/// Rows per block of the tool's parallel loops over tokens.
inline constexpr Eigen::Index kBlockRows = 128;

}  // namespace mok::tool
