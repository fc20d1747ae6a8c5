// SPDX-License-Identifier: Apache-2.0
// The model's gradients against finite differences, in float64.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "dense_layer.h"
#include "mok/language_model.h"

namespace mok::tool {
namespace {

Batch random_batch(Eigen::Index tokens, Eigen::Index context, std::uint64_t seed) {
  Random random(seed);
  Batch batch;
  batch.contexts.resize(tokens, context);
  for (Eigen::Index i = 0; i < batch.contexts.size(); ++i) {
    batch.contexts.data()[i] = static_cast<std::uint8_t>(random.below(6));  // bytes that repeat
  }
  for (Eigen::Index n = 0; n < tokens; ++n)
    batch.targets.push_back(static_cast<std::uint8_t>(random.below(9)));
  return batch;
}

/// What backward differentiates.
double objective(LanguageModel<double>& model, const Batch& batch, double balance_factor) {
  const double cross_entropy = model.forward(batch);
  return cross_entropy + (model.router() != nullptr ? balance_factor * model.router()->balance_loss() : 0);
}

/// Holds `checks` elements of every parameter's gradient, chosen by a fixed stride, and its largest, against
/// central differences.
void expect_right_gradients(LanguageModel<double>& model, const Batch& batch, double balance_factor) {
  objective(model, batch, balance_factor);
  model.backward(batch);
  for (Parameter<double>* parameter : model.parameters()) {
    const RowMatrix<double> grad = parameter->grad;
    const double scale = grad.cwiseAbs().maxCoeff();
    EXPECT_GT(scale, 0) << parameter->name;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    grad.cwiseAbs().maxCoeff(&row, &col);
    std::vector<Eigen::Index> elements = {row * grad.cols() + col};
    for (Eigen::Index i = 0; i < 16; ++i) elements.push_back((i * 7919 + 3) % grad.size());
    for (const Eigen::Index i : elements) {
      double& value = parameter->value.data()[i];
      const double before = value;
      constexpr double kStep = 1e-5;
      value = before + kStep;
      const double above = objective(model, batch, balance_factor);
      value = before - kStep;
      const double below = objective(model, batch, balance_factor);
      value = before;
      EXPECT_NEAR(grad.data()[i], (above - below) / (2 * kStep), 1e-6 * scale + 1e-10)
          << parameter->name << "[" << i << "]";
    }
  }
}

ModelSizes small_sizes(std::int64_t topk, double balance_factor) {
  return {.context = 4, .hidden = 24, .experts = 5, .topk = topk, .balance_factor = balance_factor};
}

TEST(ModelGradient, OfTheModelWithoutExperts) {
  LanguageModel<double> model(small_sizes(2, 0), nullptr, 1, 2);
  expect_right_gradients(model, random_batch(37, 4, 2), 0);
}

TEST(ModelGradient, ThroughRouterAndLayer) {
  DenseLayer<double> layer(5, 24, 8, 3);
  LanguageModel<double> model(small_sizes(2, 0), &layer, 1, 2);
  expect_right_gradients(model, random_batch(37, 4, 2), 0);
}

TEST(ModelGradient, WithALargeLoadBalancingLoss) {
  DenseLayer<double> layer(5, 24, 8, 3);
  LanguageModel<double> model(small_sizes(3, 2.5), &layer, 1, 2);
  expect_right_gradients(model, random_batch(37, 4, 2), 2.5);
}

TEST(ModelGradient, WithOneExpertPerToken) {
  DenseLayer<double> layer(5, 24, 8, 3);
  LanguageModel<double> model(small_sizes(1, 0.1), &layer, 1, 2);
  expect_right_gradients(model, random_batch(37, 4, 2), 0.1);
}

TEST(ModelGradient, WithEveryExpertForEveryToken) {
  DenseLayer<double> layer(5, 24, 8, 3);
  LanguageModel<double> model(small_sizes(5, 0.1), &layer, 1, 2);
  expect_right_gradients(model, random_batch(37, 4, 2), 0.1);
}

TEST(ModelGradient, ThreadsDoNotChangeABit) {
  const Batch batch = random_batch(1000, 4, 2);
  std::vector<std::vector<RowMatrix<float>>> grads;
  std::vector<double> losses;
  for (const int threads : {1, 4}) {
    DenseLayer<float> layer(5, 64, 8, 3);
    LanguageModel<float> model({.context = 4, .hidden = 64, .experts = 5, .topk = 2}, &layer, 1, threads);
    losses.push_back(model.forward(batch));
    model.backward(batch);
    grads.emplace_back();
    for (const Parameter<float>* parameter : model.parameters()) grads.back().push_back(parameter->grad);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(grads[0], grads[1]);
}

}  // namespace
}  // namespace mok::tool
