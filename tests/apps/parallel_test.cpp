// SPDX-License-Identifier: Apache-2.0
#include "mok/parallel.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace mok::tool {
namespace {

TEST(Parallel, CallsEachBlockOnce) {
  for (const int threads : {0, 1, 2, 5}) {
    for (const std::int64_t blocks : {0, 1, 3, 100}) {
      std::vector<int> calls(static_cast<std::size_t>(blocks));
      parallel_blocks(threads, blocks, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
      for (const int count : calls) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Parallel, RangesCoverTheSize) {
  std::vector<int> covered(1000);
  parallel_ranges(3, 1000, 128, [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t i = begin; i < begin + count; ++i) ++covered[static_cast<std::size_t>(i)];
  });
  for (const int count : covered) EXPECT_EQ(count, 1);
}

TEST(Parallel, HandsOnAFailure) {
  const auto fail = [](std::int64_t i) {
    if (i == 5) throw std::runtime_error("block 5");
  };
  EXPECT_THROW(parallel_blocks(3, 10, fail), std::runtime_error);
}

}  // namespace
}  // namespace mok::tool
