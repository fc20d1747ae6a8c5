// SPDX-License-Identifier: Apache-2.0
#include "mok/adam.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace mok::tool {
namespace {

TEST(Adam, FollowsAHandComputation) {
  Parameter<float> parameter("p", 1, 2);
  parameter.value << 1.0F, -2.0F;
  Adam adam({&parameter}, {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8}, 1);

  // First step: the corrected means are the gradient and its square, so each value moves by the rate.
  parameter.grad << 0.5F, -3.0F;
  adam.step(0.1);
  EXPECT_NEAR(parameter.value(0, 0), 0.9, 1e-6);
  EXPECT_NEAR(parameter.value(0, 1), -1.9, 1e-6);

  // Second step, element 0: mean = 0.9 * 0.05 - 0.1 * 1 = -0.055, / (1 - 0.81) = -0.2894737;
  // square = 0.99 * 0.0025 + 0.01 * 1 = 0.012475, / (1 - 0.9801) = 0.6268844, root 0.7917604.
  // Element 1 has no gradient: mean = 0.9 * -0.3 = -0.27, / 0.19 = -1.4210526;
  // square = 0.99 * 0.09 = 0.0891, / 0.0199 = 4.4773869, root 2.1159837.
  parameter.grad << -1.0F, 0.0F;
  adam.step(0.1);
  EXPECT_NEAR(parameter.value(0, 0), 0.9 + 0.1 * 0.2894737 / 0.7917604, 1e-6);
  EXPECT_NEAR(parameter.value(0, 1), -1.9 + 0.1 * 1.4210526 / 2.1159837, 1e-6);
}

TEST(Adam, LeavesAParameterThatNeverHadAGradient) {
  Parameter<float> parameter("p", 3, 5);
  parameter.randomize(1, 2, 1.0);
  const RowMatrix<float> before = parameter.value;
  Adam adam({&parameter}, {}, 2);
  for (int i = 0; i < 3; ++i) adam.step(0.1);
  EXPECT_EQ(parameter.value, before);
}

TEST(Adam, ThreadsDoNotChangeABit) {
  std::vector<RowMatrix<float>> results;
  for (const int threads : {1, 3}) {
    Parameter<float> parameter("p", 1000, 257);
    parameter.randomize(1, 2, 1.0);
    Adam adam({&parameter}, {}, threads);
    for (std::uint64_t step = 0; step < 3; ++step) {
      Parameter<float> noise("noise", 1000, 257);
      noise.randomize(step, 3, 1.0);
      parameter.grad = noise.value;
      adam.step(0.01);
    }
    results.push_back(parameter.value);
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace mok::tool
