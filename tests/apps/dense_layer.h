// SPDX-License-Identifier: Apache-2.0
// A stand-in for the library's layer: the same function without roundings, in any scalar, so that gradients
// can be held against finite differences.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "mok/expert_layer.h"

namespace mok::tool {

template <class Scalar>
class DenseLayer final : public ExpertLayer<Scalar> {
 public:
  DenseLayer(Eigen::Index experts, Eigen::Index hidden, Eigen::Index intermediate, std::uint64_t seed) {
    for (Eigen::Index e = 0; e < experts; ++e) {
      experts_.push_back({Parameter<Scalar>("gate", intermediate, hidden),
                          Parameter<Scalar>("up", intermediate, hidden),
                          Parameter<Scalar>("down", hidden, intermediate)});
      const std::uint64_t stream = 100 + 3 * static_cast<std::uint64_t>(e);
      experts_.back().gate.randomize(seed, stream, 1 / std::sqrt(static_cast<double>(hidden)));
      experts_.back().up.randomize(seed, stream + 1, 1 / std::sqrt(static_cast<double>(hidden)));
      experts_.back().down.randomize(seed, stream + 2, 1 / std::sqrt(static_cast<double>(intermediate)));
    }
  }

  void forward(const RowMatrix<Scalar>& x, const Routing<Scalar>& routing, RowMatrix<Scalar>& out) override {
    out = RowMatrix<Scalar>::Zero(x.rows(), x.cols());
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      const Rows rows = rows_of(e, x, routing);
      const RowMatrix<Scalar> y = rows.hidden(experts_[e]) * experts_[e].down.value.transpose();
      for (std::size_t r = 0; r < rows.routes.size(); ++r) {
        out.row(rows.routes[r].token) += rows.routes[r].weight * y.row(static_cast<Eigen::Index>(r));
      }
    }
  }

  void backward(const RowMatrix<Scalar>& x, const Routing<Scalar>& routing, const RowMatrix<Scalar>& grad_out,
                RowMatrix<Scalar>& d_x, RowMatrix<Scalar>& d_router_weights) override {
    d_x = RowMatrix<Scalar>::Zero(x.rows(), x.cols());
    d_router_weights = RowMatrix<Scalar>::Zero(x.rows(), routing.topk_experts.cols());
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      Expert& expert = experts_[e];
      const Rows rows = rows_of(e, x, routing);
      const RowMatrix<Scalar> gate = rows.x * expert.gate.value.transpose();
      const RowMatrix<Scalar> up = rows.x * expert.up.value.transpose();
      const RowMatrix<Scalar> hidden = rows.hidden(expert);
      RowMatrix<Scalar> d_y(rows.x.rows(), x.cols());
      for (Eigen::Index r = 0; r < d_y.rows(); ++r) d_y.row(r) = grad_out.row(rows.route(r).token);
      RowMatrix<Scalar> d_hidden = d_y * expert.down.value;
      for (Eigen::Index r = 0; r < d_y.rows(); ++r) {
        const Route& route = rows.route(r);
        d_router_weights(route.token, route.choice) = d_hidden.row(r).dot(hidden.row(r));
        d_hidden.row(r) *= route.weight;
        d_y.row(r) *= route.weight;
      }
      const auto sigmoid = (1 + (-gate.array()).exp()).inverse().eval();
      const RowMatrix<Scalar> d_gate =
          (d_hidden.array() * up.array() * sigmoid * (1 + gate.array() * (1 - sigmoid))).matrix();
      const RowMatrix<Scalar> d_up = (d_hidden.array() * gate.array() * sigmoid).matrix();
      expert.gate.grad = d_gate.transpose() * rows.x;
      expert.up.grad = d_up.transpose() * rows.x;
      expert.down.grad = d_y.transpose() * hidden;
      const RowMatrix<Scalar> d_rows = d_gate * expert.gate.value + d_up * expert.up.value;
      for (Eigen::Index r = 0; r < d_y.rows(); ++r) d_x.row(rows.route(r).token) += d_rows.row(r);
    }
  }

  [[nodiscard]] std::vector<Parameter<Scalar>*> parameters() override {
    std::vector<Parameter<Scalar>*> all;
    for (Expert& expert : experts_) all.insert(all.end(), {&expert.gate, &expert.up, &expert.down});
    return all;
  }

 private:
  struct Expert {
    Parameter<Scalar> gate, up, down;
  };
  struct Route {
    Eigen::Index token, choice;
    Scalar weight;
  };
  /// The tokens of one expert.
  struct Rows {
    std::vector<Route> routes;
    RowMatrix<Scalar> x;

    [[nodiscard]] const Route& route(Eigen::Index r) const { return routes[static_cast<std::size_t>(r)]; }
    [[nodiscard]] RowMatrix<Scalar> hidden(const Expert& expert) const {
      const RowMatrix<Scalar> gate = x * expert.gate.value.transpose();
      const RowMatrix<Scalar> up = x * expert.up.value.transpose();
      return (gate.array() / (1 + (-gate.array()).exp()) * up.array()).matrix();
    }
  };

  static Rows rows_of(std::size_t expert, const RowMatrix<Scalar>& x, const Routing<Scalar>& routing) {
    Rows rows;
    for (Eigen::Index n = 0; n < x.rows(); ++n) {
      for (Eigen::Index k = 0; k < routing.topk_experts.cols(); ++k) {
        if (routing.topk_experts(n, k) == static_cast<std::int32_t>(expert)) {
          rows.routes.push_back({n, k, routing.router_weights(n, k)});
        }
      }
    }
    rows.x.resize(static_cast<Eigen::Index>(rows.routes.size()), x.cols());
    for (Eigen::Index r = 0; r < rows.x.rows(); ++r) rows.x.row(r) = x.row(rows.route(r).token);
    return rows;
  }

  std::deque<Expert> experts_;
};

}  // namespace mok::tool
