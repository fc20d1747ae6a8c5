// SPDX-License-Identifier: Apache-2.0
// Sizes and tunables: what is refused, in which words, and what is accepted at the edges.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kTera = 1'000'000'000'000;

struct Sizes {
  Config config;
  WorkspaceOptions options{2, 8, 64, 2, {}};
  LayerShape layer{4, 128, 192};
};

/// Both ways to name sizes must refuse alike: the estimate, and the workspace with its reserve().
void expect_refused(const Sizes& sizes, const std::string& sentence) {
  EXPECT_EQ(refusal_of([&] { static_cast<void>(nbytes_for(sizes.config, sizes.options, sizes.layer)); }),
            sentence);
  EXPECT_EQ(refusal_of([&] { Workspace(sizes.config, sizes.options).reserve(sizes.layer); }), sentence);
}

template <class Value>
struct Bad {
  Value value;
  std::string printed;
};

TEST(ConfigRange, CommunicationSms) {
  for (const Bad<int>& bad : std::vector<Bad<int>>{{0, "0"}, {-1, "-1"}, {257, "257"}}) {
    Sizes sizes;
    sizes.config.fwd_num_comm_sms = bad.value;
    expect_refused(sizes, "fwd_num_comm_sms is " + bad.printed + "; it must be from 1 to 256");
    sizes = {};
    sizes.config.bwd_num_comm_sms = bad.value;
    expect_refused(sizes, "bwd_num_comm_sms is " + bad.printed + "; it must be from 1 to 256");
  }
}

TEST(ConfigRange, ComputeWorkers) {
  for (const Bad<int>& bad : std::vector<Bad<int>>{{-1, "-1"}, {257, "257"}}) {
    Sizes sizes;
    sizes.config.cpu.num_compute_workers = bad.value;
    expect_refused(sizes, "cpu.num_compute_workers is " + bad.printed + "; it must be from 0 to 256");
  }
}

TEST(ConfigRange, MinibatchSize) {
  for (const std::int64_t bad :
       std::initializer_list<std::int64_t>{0, -128, 127, 200, std::int64_t{1} << 31, kTera}) {
    Sizes sizes;
    sizes.config.minibatch_size = bad;
    sizes.config.macrobatch_size = bad;
    expect_refused(sizes, "minibatch_size is " + std::to_string(bad) +
                              "; it must be a positive multiple of 128 that fits 31 bits");
  }
}

TEST(ConfigRange, MacrobatchSize) {
  for (const std::int64_t bad :
       std::initializer_list<std::int64_t>{0, -256, 128, 384, std::int64_t{1} << 31, kTera}) {
    Sizes sizes;
    sizes.config.minibatch_size = 256;
    sizes.config.macrobatch_size = bad;
    expect_refused(sizes, "macrobatch_size is " + std::to_string(bad) +
                              "; it must be a positive multiple of minibatch_size (256) that fits 31 bits");
  }
}

TEST(ConfigRange, CapacityMultiplier) {
  const std::vector<Bad<double>> bads{{0, "0"},      {-0.5, "-0.5"},     {1.5, "1.5"},
                                      {kNaN, "nan"}, {kInfinity, "inf"}, {-kInfinity, "-inf"}};
  for (const Bad<double>& bad : bads) {
    Sizes sizes;
    sizes.config.schedule_capacity_multiplier = bad.value;
    expect_refused(sizes, "schedule_capacity_multiplier is " + bad.printed +
                              "; it must be greater than 0 and at most 1 (1 can never overflow)");
  }
}

TEST(ConfigRange, GatherChunk) {
  for (const std::int64_t bad : {0, 8, -16, 24}) {
    Sizes sizes;
    sizes.config.all_gather_top_experts_chunk_bytes = bad;
    expect_refused(sizes, "all_gather_top_experts_chunk_bytes is " + std::to_string(bad) +
                              "; it must be a positive multiple of 16");
  }
}

TEST(ConfigRange, SwigluLimit) {
  const std::vector<Bad<double>> bads{
      {0, "0"}, {-2, "-2"}, {kNaN, "nan"}, {kInfinity, "inf"}, {-kInfinity, "-inf"}};
  for (const Bad<double>& bad : bads) {
    Sizes sizes;
    sizes.config.swiglu_limit = static_cast<float>(bad.value);
    expect_refused(sizes, "swiglu_limit is " + bad.printed +
                              "; it must be a finite number greater than 0, or left out for none");
  }
}

TEST(ConfigRange, Deadlines) {
  const std::vector<Bad<double>> bads{{-1, "-1"}, {kNaN, "nan"}, {kInfinity, "inf"}};
  for (const Bad<double>& bad : bads) {
    const std::string rest =
        " is " + bad.printed + "; it must be a finite number of seconds, 0 for no deadline";
    Sizes sizes;
    sizes.config.arrival_deadline_seconds = bad.value;
    expect_refused(sizes, "arrival_deadline_seconds" + rest);
    sizes = {};
    sizes.config.progress_deadline_seconds = bad.value;
    expect_refused(sizes, "progress_deadline_seconds" + rest);
  }
}

TEST(WorkspaceOptionsRange, Ranks) {
  for (const int bad : {0, -2, 1025}) {
    Sizes sizes;
    sizes.options.ranks = bad;
    expect_refused(sizes, "ranks is " + std::to_string(bad) + "; it must be from 1 to 1024");
  }
}

TEST(WorkspaceOptionsRange, Topk) {
  for (const int bad : {0, -2, 1025}) {
    Sizes sizes;
    sizes.options.topk = bad;
    expect_refused(sizes, "topk is " + std::to_string(bad) + "; it must be from 1 to 1024");
  }
}

// The bound keeps the routes of all ranks, any of which may be one rank's rows, within 31 bits.
TEST(WorkspaceOptionsRange, MaxTokens) {
  for (const std::int64_t bad : std::initializer_list<std::int64_t>{0, -1, 536870912, kTera}) {
    Sizes sizes;
    sizes.options.max_tokens = bad;
    expect_refused(sizes, "max_tokens is " + std::to_string(bad) + "; it must be from 1 to 536870911");
  }
}

TEST(WorkspaceOptionsRange, HiddenSize) {
  for (const std::int64_t bad : std::initializer_list<std::int64_t>{0, -64, 32, 100, 1048640, kTera}) {
    Sizes sizes;
    sizes.options.hidden_size = bad;
    expect_refused(
        sizes, "hidden_size is " + std::to_string(bad) + "; it must be a multiple of 64 from 64 to 1048576");
  }
}

TEST(WorkspaceOptionsRange, Device) {
  Sizes sizes;
  sizes.options.device = {DeviceType::cuda, 3};
  if (backends()[1].reason.find("-DMOK_CUDA=ON") == std::string::npos) {
    GTEST_SKIP() << "this build has a CUDA backend";
  }
  expect_refused(
      sizes,
      "device is cuda:3; this build of MoK has no CUDA backend; configure with -DMOK_CUDA=ON, or let "
      "it be cpu");
}

TEST(LayerShapeRange, NumExperts) {
  for (const int bad : {0, -4, 65538}) {
    Sizes sizes;
    sizes.layer.num_experts = bad;
    expect_refused(sizes, "num_experts is " + std::to_string(bad) + "; it must be from 1 to 65536");
  }
}

TEST(LayerShapeRange, ExpertsDivideOverRanks) {
  Sizes sizes;
  sizes.layer.num_experts = 5;
  expect_refused(
      sizes, "num_experts is 5; it must be a multiple of ranks (2), for every rank holds as many experts");
}

TEST(LayerShapeRange, TopkAboveExperts) {
  Sizes sizes;
  sizes.options.topk = 5;
  expect_refused(sizes,
                 "topk is 5; it must be at most num_experts (4), for a token goes to different experts");
}

TEST(LayerShapeRange, IntermediateSizes) {
  for (const std::int64_t bad : std::initializer_list<std::int64_t>{-64, 96, 1048640, kTera}) {
    const std::string rest =
        " is " + std::to_string(bad) + "; it must be a multiple of 64 from 64 to 1048576";
    Sizes sizes;
    sizes.layer.intermediate_size = bad;
    expect_refused(sizes, "intermediate_size" + rest);
    sizes = {};
    sizes.layer.shared_intermediate_size = bad;
    expect_refused(sizes, "shared_intermediate_size" + rest);
  }
  Sizes sizes;
  sizes.layer.intermediate_size = 0;
  expect_refused(sizes, "intermediate_size is 0; it must be a multiple of 64 from 64 to 1048576");
}

TEST(Accepted, EdgesOfTheRanges) {
  Sizes sizes;
  sizes.config.fwd_num_comm_sms = 256;
  sizes.config.bwd_num_comm_sms = 1;
  sizes.config.cpu.num_compute_workers = 256;
  sizes.config.minibatch_size = 128;
  sizes.config.macrobatch_size = 128;
  sizes.config.schedule_capacity_multiplier = 1;
  sizes.config.all_gather_top_experts_chunk_bytes = 16;
  sizes.config.swiglu_limit = std::numeric_limits<float>::denorm_min();
  sizes.config.arrival_deadline_seconds = 0;
  sizes.config.progress_deadline_seconds = 0;
  sizes.options = {1, 1, 64, 1, {}};
  sizes.layer = {1, 64, 0};
  Workspace workspace(sizes.config, sizes.options);
  workspace.reserve(sizes.layer);
  EXPECT_GT(workspace.nbytes(), 0);
}

// The models named by users: multiples of 64 that are no multiple of 128 or 256.
TEST(Accepted, WidthsOfRealModels) {
  for (const std::int64_t width : {2880, 768, 1408}) {
    EXPECT_GT(nbytes_for({}, {2, 16, width, 4, {}}, {8, width, 0}).context_bytes, 0) << width;
  }
}

TEST(Accepted, ConfigAndOptionsAreKept) {
  Config config;
  config.minibatch_size = 256;
  config.swiglu_limit = 7.0f;
  const Workspace workspace(config, {2, 8, 64, 2, {}});
  EXPECT_EQ(workspace.config().minibatch_size, 256);
  EXPECT_EQ(workspace.config().swiglu_limit, 7.0f);
  EXPECT_EQ(workspace.options().ranks, 2);
  EXPECT_EQ(workspace.options().max_tokens, 8);
}

}  // namespace
}  // namespace mok::testing
