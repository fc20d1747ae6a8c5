// SPDX-License-Identifier: Apache-2.0
// The Adam optimizer (Kingma & Ba) with decoupled weight decay (Loshchilov & Hutter), on f32 master values.
#pragma once

#include <vector>

#include "mok/parameter.h"

namespace mok::tool {

struct AdamOptions {
  double beta1 = 0.9;   ///< decay of the mean gradient
  double beta2 = 0.99;  ///< decay of the mean squared gradient
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< part of a value that a step takes away, per unit of learning rate
};

class Adam {
 public:
  /// The parameters must outlive this.
  Adam(std::vector<Parameter<float>*> parameters, const AdamOptions& options, int threads);

  /// One step along every parameter's `grad`; parameters are independent of each other and of `threads`.
  void step(double learning_rate);

 private:
  struct Moments {
    RowMatrix<float> mean;
    RowMatrix<float> square;
  };
  std::vector<Parameter<float>*> parameters_;
  std::vector<Moments> moments_;
  AdamOptions options_;
  int threads_;
  double beta1_power_ = 1;  ///< beta1 ^ steps
  double beta2_power_ = 1;
};

}  // namespace mok::tool
