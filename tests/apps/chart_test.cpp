// SPDX-License-Identifier: Apache-2.0
#include "mok/chart.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mok/human.h"

namespace mok::tool {
namespace {

TEST(Chart, BarsHaveEighthsOfAColumn) {
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.53125, 4), "██▏");
  EXPECT_EQ(bar(0.96875, 4), "███▉");
}

TEST(Chart, BarsClampWhatIsOutside) {
  EXPECT_EQ(bar(-1, 3), "");
  EXPECT_EQ(bar(7, 3), "███");
  EXPECT_EQ(bar(std::numeric_limits<double>::quiet_NaN(), 3), "");
}

TEST(Chart, LoadIsRelativeToTheFullestExpert) {
  const std::vector<std::int64_t> load = {10, 20, 0, 10};
  const std::vector<std::string> lines = load_chart(load, 4);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "expert 0  ██     25.0 %");
  EXPECT_EQ(lines[1], "expert 1  ████   50.0 %");
  EXPECT_EQ(lines[2], "expert 2          0.0 %");
}

TEST(Chart, LoadOfNothing) {
  const std::vector<std::int64_t> load = {0, 0};
  EXPECT_EQ(load_chart(load, 4)[1], "expert 1          0.0 %");
  EXPECT_TRUE(load_chart({}, 4).empty());
  EXPECT_EQ(balance_of(load).max_over_mean, 0);
}

TEST(Chart, BalanceOfKnownLoads) {
  const std::vector<std::int64_t> even = {5, 5, 5, 5};
  EXPECT_DOUBLE_EQ(balance_of(even).max_over_mean, 1);
  EXPECT_DOUBLE_EQ(balance_of(even).entropy, 1);
  const std::vector<std::int64_t> one = {0, 12, 0, 0};
  EXPECT_DOUBLE_EQ(balance_of(one).max_over_mean, 4);
  EXPECT_DOUBLE_EQ(balance_of(one).entropy, 0);
  const std::vector<std::int64_t> half = {6, 6, 0, 0};
  EXPECT_DOUBLE_EQ(balance_of(half).entropy, 0.5);
}

TEST(Human, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3.0 * (1 << 30)), "3.0 GiB");
  EXPECT_EQ(minutes_seconds(75.4), "1:15");
}

}  // namespace
}  // namespace mok::tool
