// SPDX-License-Identifier: Apache-2.0
// The learned router: a softmax over the experts, of which each token takes the K most probable.
#pragma once

#include <cstdint>
#include <vector>

#include "mok/expert_layer.h"
#include "mok/parameter.h"

namespace mok::tool {

/// Router weights are the probabilities of the chosen experts, divided by their sum; with K = 1, where that
/// would always be 1 and teach the router nothing, the probability itself.
///
/// The load-balancing loss is that of Switch Transformers: E * sum over experts of f[e] * P[e], with f the
/// share of the batch's routes and P the mean probability. It is 1 for an even load. f is a count and has no
/// gradient.
template <class Scalar>
class Router {
 public:
  Router(Eigen::Index experts, Eigen::Index topk, Eigen::Index hidden, std::uint64_t seed);

  /// Chooses for x [N, H]; ties go to the lower expert.
  void forward(const RowMatrix<Scalar>& x, int threads);
  /// Sets weight().grad, and adds to d_x [N, H], from the gradient of the router weights [N, K] and from
  /// `balance_factor` times the load-balancing loss.
  void backward(const RowMatrix<Scalar>& x, const RowMatrix<Scalar>& d_router_weights, double balance_factor,
                RowMatrix<Scalar>& d_x, int threads);

  [[nodiscard]] const Routing<Scalar>& routing() const { return routing_; }
  [[nodiscard]] double balance_loss() const { return balance_loss_; }
  /// Routes of each expert in the last batch, [E].
  [[nodiscard]] const std::vector<std::int64_t>& load() const { return load_; }
  [[nodiscard]] Parameter<Scalar>& weight() { return weight_; }

 private:
  void choose(Eigen::Index token);
  void measure_balance();
  [[nodiscard]] Scalar chosen_sum(Eigen::Index token) const;

  Eigen::Index experts_;
  Eigen::Index topk_;
  Parameter<Scalar> weight_;         ///< [E, H]
  RowMatrix<Scalar> probabilities_;  ///< [N, E]
  Routing<Scalar> routing_;
  std::vector<std::int64_t> load_;
  double balance_loss_ = 0;
};

}  // namespace mok::tool
