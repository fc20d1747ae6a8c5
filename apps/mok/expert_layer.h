// SPDX-License-Identifier: Apache-2.0
// What the language model needs of its mixture-of-experts layer.
#pragma once

#include <cstdint>
#include <vector>

#include "mok/parameter.h"

namespace mok::tool {

/// Where the tokens of a batch go: N tokens of all ranks in rank order.
template <class Scalar>
struct Routing {
  RowMatrix<std::int32_t> topk_experts;  ///< [N, K]
  RowMatrix<Scalar> router_weights;      ///< [N, K]
};

/// out[n] = sum over k of router_weights[n,k] * expert[topk_experts[n,k]](x[n]).
template <class Scalar>
class ExpertLayer {
 public:
  virtual ~ExpertLayer() = default;

  /// \param x [N, H]; `out` becomes [N, H].
  virtual void forward(const RowMatrix<Scalar>& x, const Routing<Scalar>& routing,
                       RowMatrix<Scalar>& out) = 0;

  /// Gradients of sum(out * grad_out) of the last forward, whose x and routing are still as they were: `d_x`
  /// [N, H], `d_router_weights` [N, K], and `grad` of every parameter, overwritten.
  virtual void backward(const RowMatrix<Scalar>& x, const Routing<Scalar>& routing,
                        const RowMatrix<Scalar>& grad_out, RowMatrix<Scalar>& d_x,
                        RowMatrix<Scalar>& d_router_weights) = 0;

  [[nodiscard]] virtual std::vector<Parameter<Scalar>*> parameters() = 0;
};

}  // namespace mok::tool
