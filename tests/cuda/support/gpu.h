// SPDX-License-Identifier: Apache-2.0
// What every test that runs on a GPU begins with.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <mok/backend.h>
#include <mok/tensor.h>

namespace mok::testing {

inline constexpr Device kGpu{DeviceType::cuda, 0};

/// Why the kernels cannot run here: no CUDA in this build, no GPU, or one of another kind. Empty when they
/// can.
inline std::string missing_gpu() {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "cuda") return backend.available ? std::string() : backend.reason;
  }
  return "this library knows no backend of the name cuda";
}

}  // namespace mok::testing

/// The first line of a test (or of SetUp) that takes a GPU: skips it with the reason where there is none. A
/// macro, because GTEST_SKIP returns from the function that it stands in.
#define MOK_REQUIRE_GPU()                                              \
  do {                                                                 \
    const std::string mok_missing_gpu = ::mok::testing::missing_gpu(); \
    if (!mok_missing_gpu.empty()) GTEST_SKIP() << mok_missing_gpu;     \
  } while (false)
