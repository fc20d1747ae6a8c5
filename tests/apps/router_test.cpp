// SPDX-License-Identifier: Apache-2.0
#include "mok/router.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mok::tool {
namespace {

/// A router whose logits are the tokens themselves.
Router<double> identity_router(Eigen::Index experts, Eigen::Index topk) {
  Router<double> router(experts, topk, experts, 1);
  router.weight().value = RowMatrix<double>::Identity(experts, experts);
  return router;
}

TEST(Router, TakesTheMostProbableExpertsInOrder) {
  Router<double> router = identity_router(4, 2);
  RowMatrix<double> x(2, 4);
  x << std::log(1.0), std::log(5.0), std::log(2.0), std::log(2.0),  //
      std::log(3.0), std::log(3.0), std::log(1.0), std::log(3.0);
  router.forward(x, 1);
  const auto& routing = router.routing();
  EXPECT_EQ(routing.topk_experts(0, 0), 1);
  EXPECT_EQ(routing.topk_experts(0, 1), 2);  // the lower of two equal ones
  EXPECT_NEAR(routing.router_weights(0, 0), 5.0 / 7, 1e-12);
  EXPECT_NEAR(routing.router_weights(0, 1), 2.0 / 7, 1e-12);
  EXPECT_EQ(routing.topk_experts(1, 0), 0);
  EXPECT_EQ(routing.topk_experts(1, 1), 1);
  EXPECT_EQ(router.load(), (std::vector<std::int64_t>{1, 2, 1, 0}));
}

TEST(Router, WithOneExpertPerTokenTheWeightIsTheProbability) {
  Router<double> router = identity_router(3, 1);
  RowMatrix<double> x(1, 3);
  x << std::log(1.0), std::log(1.0), std::log(6.0);
  router.forward(x, 1);
  EXPECT_EQ(router.routing().topk_experts(0, 0), 2);
  EXPECT_NEAR(router.routing().router_weights(0, 0), 0.75, 1e-12);
}

TEST(Router, BalanceLossOfKnownLoads) {
  Router<double> router = identity_router(2, 1);
  RowMatrix<double> even(2, 2);
  even << 1, 0, 0, 1;
  router.forward(even, 1);
  EXPECT_NEAR(router.balance_loss(), 1, 1e-12);
  // Both tokens on expert 0 with probability 3/4: 2 * (1 * 3/4).
  RowMatrix<double> skewed(2, 2);
  skewed << std::log(3.0), 0, std::log(3.0), 0;
  router.forward(skewed, 1);
  EXPECT_NEAR(router.balance_loss(), 1.5, 1e-12);
}

TEST(Router, LargeLogitsStayFinite) {
  Router<double> router = identity_router(3, 2);
  RowMatrix<double> x(1, 3);
  x << 5000, -5000, 4999;
  router.forward(x, 1);
  EXPECT_NEAR(router.routing().router_weights.sum(), 1, 1e-12);
}

}  // namespace
}  // namespace mok::tool
