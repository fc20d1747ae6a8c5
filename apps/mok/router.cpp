// SPDX-License-Identifier: Apache-2.0
#include "mok/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mok/parallel.h"

namespace mok::tool {

template <class Scalar>
Router<Scalar>::Router(Eigen::Index experts, Eigen::Index topk, Eigen::Index hidden, std::uint64_t seed)
    : experts_(experts),
      topk_(topk),
      weight_("router", experts, hidden),
      load_(static_cast<std::size_t>(experts)) {
  weight_.randomize(seed, kRouterStream, 0.5 / std::sqrt(static_cast<double>(hidden)));
}

template <class Scalar>
void Router<Scalar>::forward(const RowMatrix<Scalar>& x, int threads) {
  probabilities_.resize(x.rows(), experts_);
  routing_.topk_experts.resize(x.rows(), topk_);
  routing_.router_weights.resize(x.rows(), topk_);
  parallel_ranges(threads, x.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    probabilities_.middleRows(begin, count).noalias() =
        x.middleRows(begin, count) * weight_.value.transpose();
    for (Eigen::Index n = begin; n < begin + count; ++n) {
      auto row = probabilities_.row(n).array();
      const Scalar largest = row.maxCoeff();
      row = (row - largest).exp().eval();
      row /= row.sum();
      choose(n);
    }
  });
  measure_balance();
}

template <class Scalar>
void Router<Scalar>::choose(Eigen::Index token) {
  const auto row = probabilities_.row(token);
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts_));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + topk_, order.end(), [&](std::int32_t a, std::int32_t b) {
    return row(a) != row(b) ? row(a) > row(b) : a < b;
  });
  for (Eigen::Index k = 0; k < topk_; ++k) {
    routing_.topk_experts(token, k) = order[static_cast<std::size_t>(k)];
    routing_.router_weights(token, k) = row(order[static_cast<std::size_t>(k)]);
  }
  if (topk_ > 1) routing_.router_weights.row(token) /= chosen_sum(token);
}

template <class Scalar>
Scalar Router<Scalar>::chosen_sum(Eigen::Index token) const {
  if (topk_ == 1) return Scalar{1};
  Scalar sum = 0;
  for (Eigen::Index k = 0; k < topk_; ++k) sum += probabilities_(token, routing_.topk_experts(token, k));
  return sum;
}

template <class Scalar>
void Router<Scalar>::measure_balance() {
  std::fill(load_.begin(), load_.end(), 0);
  const Eigen::Index routes = routing_.topk_experts.size();
  for (Eigen::Index i = 0; i < routes; ++i) {
    ++load_[static_cast<std::size_t>(routing_.topk_experts.data()[i])];
  }
  balance_loss_ = 0;
  if (routes == 0) return;
  for (Eigen::Index e = 0; e < experts_; ++e) {
    double mean_probability = 0;
    for (Eigen::Index n = 0; n < probabilities_.rows(); ++n) mean_probability += double{probabilities_(n, e)};
    mean_probability /= static_cast<double>(probabilities_.rows());
    const double share =
        static_cast<double>(load_[static_cast<std::size_t>(e)]) / static_cast<double>(routes);
    balance_loss_ += static_cast<double>(experts_) * share * mean_probability;
  }
}

template <class Scalar>
void Router<Scalar>::backward(const RowMatrix<Scalar>& x, const RowMatrix<Scalar>& d_router_weights,
                              double balance_factor, RowMatrix<Scalar>& d_x, int threads) {
  const auto tokens = static_cast<double>(x.rows());
  const auto routes = static_cast<double>(routing_.topk_experts.size());
  // The loss in P alone, the same for every token: E * f[e] / N.
  Eigen::Matrix<Scalar, 1, Eigen::Dynamic> d_balance(experts_);
  for (Eigen::Index e = 0; e < experts_; ++e) {
    const double share = static_cast<double>(load_[static_cast<std::size_t>(e)]) / routes;
    d_balance(e) = static_cast<Scalar>(balance_factor * static_cast<double>(experts_) * share / tokens);
  }
  RowMatrix<Scalar> d_logits(x.rows(), experts_);
  parallel_ranges(threads, x.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    for (Eigen::Index n = begin; n < begin + count; ++n) {
      auto d_row = d_logits.row(n);
      d_row = d_balance;
      // w[k] = p[k] / s: through the quotient, the part that all chosen share is sum of d_w * w.
      const Scalar sum = chosen_sum(n);
      Scalar shared = 0;
      if (topk_ > 1) shared = d_router_weights.row(n).cwiseProduct(routing_.router_weights.row(n)).sum();
      for (Eigen::Index k = 0; k < topk_; ++k) {
        d_row(routing_.topk_experts(n, k)) += (d_router_weights(n, k) - shared) / sum;
      }
      // Through the softmax.
      const auto p = probabilities_.row(n);
      const Scalar mean = d_row.cwiseProduct(p).sum();
      d_row = (p.array() * (d_row.array() - mean)).matrix().eval();
    }
    d_x.middleRows(begin, count).noalias() += d_logits.middleRows(begin, count) * weight_.value;
  });
  weight_.grad.noalias() = d_logits.transpose() * x;
}

template class Router<float>;
template class Router<double>;

}  // namespace mok::tool
