// SPDX-License-Identifier: Apache-2.0
#include "mok/embedding.h"

#include "mok/parallel.h"

namespace mok::tool {

template <class Scalar>
Embedding<Scalar>::Embedding(Eigen::Index context, Eigen::Index hidden, std::uint64_t seed)
    : context_(context), hidden_(hidden), table_("embedding", 256, hidden / context) {
  table_.randomize(seed, kEmbeddingStream, 1.0);
}

template <class Scalar>
void Embedding<Scalar>::forward(const RowMatrix<std::uint8_t>& contexts, RowMatrix<Scalar>& x,
                                int threads) const {
  const Eigen::Index width = table_.value.cols();
  x.resize(contexts.rows(), hidden_);
  parallel_ranges(threads, contexts.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    for (Eigen::Index n = begin; n < begin + count; ++n) {
      for (Eigen::Index c = 0; c < context_; ++c) {
        x.row(n).segment(c * width, width) = table_.value.row(contexts(n, c));
      }
    }
  });
}

template <class Scalar>
void Embedding<Scalar>::backward(const RowMatrix<std::uint8_t>& contexts, const RowMatrix<Scalar>& d_x) {
  const Eigen::Index width = table_.value.cols();
  table_.grad.setZero();
  // One thread: tokens share rows of the table, and their order of addition decides the bits.
  for (Eigen::Index n = 0; n < contexts.rows(); ++n) {
    for (Eigen::Index c = 0; c < context_; ++c) {
      table_.grad.row(contexts(n, c)) += d_x.row(n).segment(c * width, width);
    }
  }
}

template class Embedding<float>;
template class Embedding<double>;

}  // namespace mok::tool
