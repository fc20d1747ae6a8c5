// SPDX-License-Identifier: Apache-2.0
#include "mok/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace mok::tool {
namespace {

TEST(Random, IsTheSameEverywhere) {
  Random random(1);
  EXPECT_EQ(random.next(), 0xF18D6CE93D6CF1EEULL);
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(Random(1, 0).next(), Random(1, 1).next());
  EXPECT_NE(Random(1, 1).next(), Random(2, 1).next());
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(static_cast<std::size_t>(random.below(7)));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, NormalHasItsMoments) {
  Random random(4);
  constexpr int kCount = 100000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

TEST(Random, ShuffleKeepsEveryItem) {
  Random random(5);
  std::vector<int> items(1000);
  std::iota(items.begin(), items.end(), 0);
  const std::vector<int> sorted = items;
  random.shuffle(items);
  EXPECT_NE(items, sorted);
  std::sort(items.begin(), items.end());
  EXPECT_EQ(items, sorted);
}

}  // namespace
}  // namespace mok::tool
