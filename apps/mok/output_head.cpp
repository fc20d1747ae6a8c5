// SPDX-License-Identifier: Apache-2.0
#include "mok/output_head.h"

#include <cmath>

#include "mok/parallel.h"

namespace mok::tool {

namespace {
constexpr Eigen::Index kBytes = 256;
// Output rows per block of the weight gradient's product, whose inner sum over tokens is never cut.
constexpr Eigen::Index kGradientRows = 64;
}  // namespace

template <class Scalar>
OutputHead<Scalar>::OutputHead(Eigen::Index hidden, std::uint64_t seed)
    : weight_("output", kBytes, hidden), bias_("output bias", 1, kBytes) {
  weight_.randomize(seed, kOutputStream, 0.1 / std::sqrt(static_cast<double>(hidden)));
}

template <class Scalar>
double OutputHead<Scalar>::forward(const RowMatrix<Scalar>& h, const std::vector<std::uint8_t>& targets,
                                   int threads) {
  probabilities_.resize(h.rows(), kBytes);
  std::vector<double> losses(targets.size());
  parallel_ranges(threads, h.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    auto block = probabilities_.middleRows(begin, count);
    block.noalias() = h.middleRows(begin, count) * weight_.value.transpose();
    for (Eigen::Index n = begin; n < begin + count; ++n) {
      auto row = probabilities_.row(n).array();
      row += bias_.value.row(0).array();
      const Scalar largest = row.maxCoeff();
      const auto target = static_cast<std::size_t>(n);
      const Scalar logit = row(targets[target]);
      row = (row - largest).exp().eval();
      const Scalar sum = row.sum();
      row /= sum;
      losses[target] = std::log(double{sum}) - (double{logit} - double{largest});
    }
  });
  double total = 0;
  for (const double loss : losses) total += loss;
  return total / static_cast<double>(losses.size());
}

template <class Scalar>
void OutputHead<Scalar>::backward(const RowMatrix<Scalar>& h, const std::vector<std::uint8_t>& targets,
                                  RowMatrix<Scalar>& d_h, int threads) {
  RowMatrix<Scalar>& d_logits = probabilities_;
  const auto tokens = static_cast<Scalar>(h.rows());
  d_h.resize(h.rows(), h.cols());
  parallel_ranges(threads, h.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    for (Eigen::Index n = begin; n < begin + count; ++n) {
      d_logits(n, targets[static_cast<std::size_t>(n)]) -= Scalar{1};
      d_logits.row(n) /= tokens;
    }
    d_h.middleRows(begin, count).noalias() = d_logits.middleRows(begin, count) * weight_.value;
  });
  parallel_ranges(threads, kBytes, kGradientRows, [&](Eigen::Index begin, Eigen::Index count) {
    weight_.grad.middleRows(begin, count).noalias() = d_logits.middleCols(begin, count).transpose() * h;
    bias_.grad.middleCols(begin, count) = d_logits.middleCols(begin, count).colwise().sum();
  });
}

template class OutputHead<float>;
template class OutputHead<double>;

}  // namespace mok::tool
