// SPDX-License-Identifier: Apache-2.0
// What is said about GPUs, here or not.
#include <string>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"
#include "cuda/host/device.h"

namespace mok::testing {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

WorkspaceOptions on_gpu() { return {1, 8, 64, 2, kGpu}; }

BackendInfo cuda_info() { return backends().at(1); }

bool is_built() { return cuda_info().reason.find("-DMOK_CUDA=ON") == std::string::npos; }

TEST(WithoutCuda, EveryWayToAGpuSaysWhatToConfigure) {
  if (is_built()) GTEST_SKIP() << "this build has the CUDA backend";
  const std::string sentence =
      "device is cuda:0; this build of MoK has no CUDA backend; configure with -DMOK_CUDA=ON, or let it be "
      "cpu";
  EXPECT_FALSE(cuda_info().available);
  EXPECT_EQ(cuda_info().reason, "this build of MoK has no CUDA backend; configure with -DMOK_CUDA=ON");
  EXPECT_EQ(refusal_of([] { const Workspace workspace({}, on_gpu()); }), sentence);
  EXPECT_EQ(refusal_of([] { static_cast<void>(nbytes_for({}, on_gpu(), {4, 64, 0})); }), sentence);
  EXPECT_EQ(refusal_of([] { const Timeline timeline(kGpu); }), sentence);
}

// What a GPU's workspace takes can be asked where there is none; making it cannot work.
TEST(WithoutGpu, IsSaidWhenAWorkspaceIsMade) {
  if (!is_built()) GTEST_SKIP() << "this build has no CUDA backend";
  if (cuda_info().available) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_GT(nbytes_for({}, on_gpu(), {4, 64, 0}).context_bytes, 0);
  const std::string sentence = "device is cuda:0, but " + cuda_info().reason;
  EXPECT_EQ(refusal_of([] { const Workspace workspace({}, on_gpu()); }), sentence);
  EXPECT_EQ(refusal_of([] { const Timeline timeline(kGpu); }), sentence);
}

TEST(LimitsOfAGpu, AreToldWithoutOne) {
  if (!is_built()) GTEST_SKIP() << "this build has no CUDA backend";
  const auto refusal = [](const WorkspaceOptions& options) {
    return refusal_of([&] { static_cast<void>(nbytes_for({}, options, {64, 64, 0})); });
  };
  EXPECT_EQ(refusal({16, 8, 64, 2, kGpu}), "ranks on one GPU is 16; it must be from 1 to 8");
  EXPECT_EQ(refusal({1, 8, 64, 33, kGpu}), "topk on a GPU is 33; it must be from 1 to 32");
  EXPECT_EQ(refusal({1, 8, 64, 2, {DeviceType::cuda, -1}}), "device.index is -1; it must be from 0 to 1023");
  EXPECT_EQ(refusal({8, 8, 64, 32, kGpu}), "nothing was refused");
}

TEST(KindsOfGpu, OthersThanHopperAreNamed) {
  cuda::DeviceFacts facts{"NVIDIA A100-SXM4-40GB", 8, 0, 108, 166912, true};
  EXPECT_EQ(
      cuda::problem_of(facts),
      "is NVIDIA A100-SXM4-40GB, of compute capability 8.0; the kernels are made for compute capability 9.0 "
      "(H100, H200, GH200), so take such a GPU, or let device be cpu");
  facts.major = 10;
  EXPECT_NE(cuda::problem_of(facts).find("of compute capability 10.0"), std::string::npos);
}

TEST(KindsOfGpu, HopperWillDo) {
  cuda::DeviceFacts facts{"NVIDIA H200", 9, 0, 132, 232448, true};
  EXPECT_EQ(cuda::problem_of(facts), "");
  facts.num_sms = 1;
  EXPECT_EQ(cuda::problem_of(facts), "is NVIDIA H200 with 1 SM; a pass needs at least 2");
  facts.num_sms = 132;
  facts.has_memory_pools = false;
  EXPECT_EQ(cuda::problem_of(facts), "is NVIDIA H200, whose driver has no memory pools; let device be cpu");
}

}  // namespace
}  // namespace mok::testing
