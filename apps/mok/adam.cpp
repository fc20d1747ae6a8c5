// SPDX-License-Identifier: Apache-2.0
#include "mok/adam.h"

#include <cmath>
#include <utility>

#include "mok/parallel.h"

namespace mok::tool {

Adam::Adam(std::vector<Parameter<float>*> parameters, const AdamOptions& options, int threads)
    : parameters_(std::move(parameters)), options_(options), threads_(threads) {
  for (const Parameter<float>* parameter : parameters_) {
    const RowMatrix<float> zero = RowMatrix<float>::Zero(parameter->value.rows(), parameter->value.cols());
    moments_.push_back({zero, zero});
  }
}

void Adam::step(double learning_rate) {
  beta1_power_ *= options_.beta1;
  beta2_power_ *= options_.beta2;
  // value -= decay * value + rate * (mean / (1 - beta1^t)) / (sqrt(square / (1 - beta2^t)) + epsilon), the
  // corrections moved into two scalars.
  const double root = std::sqrt(1 - beta2_power_);
  const auto rate = static_cast<float>(learning_rate * root / (1 - beta1_power_));
  const auto kept = static_cast<float>(1 - learning_rate * options_.weight_decay);
  const auto epsilon = static_cast<float>(options_.epsilon * root);
  const auto beta1 = static_cast<float>(options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Parameter<float>& parameter = *parameters_[p];
    constexpr Eigen::Index kBlock = 1 << 16;
    parallel_ranges(threads_, parameter.value.size(), kBlock, [&](Eigen::Index begin, Eigen::Index count) {
      using Part = Eigen::Map<Eigen::ArrayXf>;
      const Eigen::Map<const Eigen::ArrayXf> grad(parameter.grad.data() + begin, count);
      Part value(parameter.value.data() + begin, count);
      Part mean(moments_[p].mean.data() + begin, count);
      Part square(moments_[p].square.data() + begin, count);
      mean = beta1 * mean + (1 - beta1) * grad;
      square = beta2 * square + (1 - beta2) * grad.square();
      value = kept * value - rate * mean / (square.sqrt() + epsilon);
    });
  }
}

}  // namespace mok::tool
