// SPDX-License-Identifier: Apache-2.0
// The memory that the other tests compare.
#include "cuda/support/device_buffer.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/support/gpu.h"

namespace mok::testing {
namespace {

TEST(DeviceBuffer, BeginsPoisoned) {
  MOK_REQUIRE_GPU();
  for (const float value : DeviceBuffer<float>(5).download()) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(DeviceBuffer<std::int32_t>(2).download(), (std::vector<std::int32_t>{-1, -1}));
}

TEST(DeviceBuffer, GivesBackWhatWasUploaded) {
  MOK_REQUIRE_GPU();
  const std::vector<std::int64_t> values = {1, -2, std::int64_t{1} << 40};
  DeviceBuffer<std::int64_t> buffer(values);
  EXPECT_EQ(buffer.download(), values);
  buffer.poison();
  EXPECT_EQ(buffer.download(), (std::vector<std::int64_t>{-1, -1, -1}));
  EXPECT_THROW(buffer.upload({1}), std::runtime_error);
}

TEST(DeviceBuffer, MovesAndMayBeEmpty) {
  MOK_REQUIRE_GPU();
  DeviceBuffer<std::int32_t> from(std::vector<std::int32_t>{7});
  std::int32_t* const address = from.data();
  const DeviceBuffer<std::int32_t> to(std::move(from));
  EXPECT_EQ(to.data(), address);
  EXPECT_EQ(to.download(), std::vector<std::int32_t>{7});
  const DeviceBuffer<float> empty(0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_TRUE(empty.download().empty());
}

}  // namespace
}  // namespace mok::testing
