// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the GPU ends in a sentence, outputs that are NaN, and a workspace that works again.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/state.h"
#include "cuda/support/gpu_layer.h"
#include "reference/random_problem.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

constexpr double kDeadline = 0.5;
constexpr double kPatience = 60;

struct Stall {
  const char* name;
  group::FaultPlan faults;
};

std::ostream& operator<<(std::ostream& out, const Stall& stall) { return out << stall.name; }

Stall never_ready(const char* name, int rank) {
  Stall stall{name, {}};
  stall.faults.never_ready_rank = rank;
  return stall;
}

Stall stuck(const char* name, int rank, std::int64_t after) {
  Stall stall{name, {}};
  stall.faults.stuck_rank = rank;
  stall.faults.stuck_after = after;
  return stall;
}

void set_faults(Workspace& workspace, const group::FaultPlan& faults, double deadline) {
  api::WorkspaceState& state = workspace.state();
  state.faults = faults;
  state.config.arrival_deadline_seconds = deadline;
  state.config.progress_deadline_seconds = deadline;
}

bool all_nan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

Config patient_config() {
  Config config;
  config.schedule_capacity_multiplier = 1.0;
  config.minibatch_size = 128;
  config.macrobatch_size = 256;
  config.arrival_deadline_seconds = kPatience;
  config.progress_deadline_seconds = kPatience;
  return config;
}

class GpuStall : public ::testing::TestWithParam<Stall> {};

TEST_P(GpuStall, EndsInASentenceAndTheWorkspaceCanBeUsedAgain) {
  MOK_REQUIRE_GPU();
  const reference::Problem problem = reference::random_problem(mixed_problem({120, 80, 100, 60}, 71));
  GpuLayer layer(problem);
  Workspace workspace(patient_config(), layer.workspace_options());
  const Schedule schedule = layer.schedule(workspace);
  static_cast<void>(layer.forward(workspace, schedule));
  const std::vector<float> expected = layer.out();

  set_faults(workspace, GetParam().faults, kDeadline);
  const auto begin = std::chrono::steady_clock::now();
  std::string sentence;
  try {
    static_cast<void>(layer.forward(workspace, schedule));
  } catch (const DeadlineExceeded& error) {
    sentence = error.what();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), kDeadline);
  EXPECT_LE(took.count(), 10 * kDeadline);
  for (const char* part : {"rank ", "waited 0.5 s for ", "reach ", "saw ", "reset()"}) {
    EXPECT_NE(std::string::npos, sentence.find(part)) << "'" << part << "' in: " << sentence;
  }
  EXPECT_TRUE(all_nan(layer.out()));

  set_faults(workspace, {}, kPatience);
  EXPECT_THROW(static_cast<void>(layer.forward(workspace, schedule)), DeadlineExceeded);
  workspace.reset();
  workspace.check();
  static_cast<void>(layer.forward(workspace, schedule));  // made before the stall
  EXPECT_EQ("", first_difference(expected, layer.out()));
  static_cast<void>(layer.forward(workspace, layer.schedule(workspace)));
  EXPECT_EQ("", first_difference(expected, layer.out()));
}

std::string name_of(const ::testing::TestParamInfo<Stall>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Stalls, GpuStall,
                         ::testing::Values(never_ready("Rank0NeverReady", 0),
                                           never_ready("Rank2NeverReady", 2), stuck("Rank0StuckAtOnce", 0, 0),
                                           stuck("Rank1StuckAfterOne", 1, 1)),
                         name_of);

/// All routes go to experts of rank 0, whose tables are made for half of them.
TEST(GpuRouting, OverflowIsNamedAndTheNextStepIsRight) {
  MOK_REQUIRE_GPU();
  reference::ProblemOptions options = mixed_problem({90, 90, 90, 90}, 81);
  options.dropped_fraction = 0;
  const reference::Problem good = reference::random_problem(options);
  reference::Problem bad = good;
  for (reference::RankInput& rank : bad.ranks) {
    for (std::int32_t& id : rank.topk_experts) id = id % 3 == 0 ? 0 : 1;
  }
  Config config = patient_config();
  GpuLayer layer(good);
  GpuLayer overflowing(bad);
  std::vector<float> expected;
  {
    Workspace fresh(config, layer.workspace_options());
    static_cast<void>(layer.forward(fresh, layer.schedule(fresh)));
    expected = layer.out();
  }
  config.schedule_capacity_multiplier = 0.25;
  Workspace workspace(config, layer.workspace_options());
  const Schedule refused = overflowing.schedule(workspace);
  EXPECT_THROW(workspace.check(), RoutingError);
  EXPECT_THROW(static_cast<void>(overflowing.forward(workspace, refused)), RoutingError);
  EXPECT_TRUE(all_nan(overflowing.out()));
  config.schedule_capacity_multiplier = 1.0;
  Workspace again(config, layer.workspace_options());
  static_cast<void>(layer.forward(again, layer.schedule(again)));
  EXPECT_EQ("", first_difference(expected, layer.out()));
}

TEST(GpuRouting, BadIdIsNamedAndTheNextStepIsRight) {
  MOK_REQUIRE_GPU();
  const reference::Problem good = reference::random_problem(mixed_problem({90, 40, 0, 77}, 82));
  reference::Problem bad = good;
  bad.ranks[1].topk_experts[5] = 99;
  GpuLayer layer(good);
  GpuLayer wrong(bad);
  Workspace workspace(patient_config(), layer.workspace_options());
  static_cast<void>(layer.forward(workspace, layer.schedule(workspace)));
  const std::vector<float> expected = layer.out();
  const Schedule refused = wrong.schedule(workspace);
  std::string sentence;
  try {
    static_cast<void>(wrong.forward(workspace, refused));
  } catch (const RoutingError& error) {
    sentence = error.what();
  }
  EXPECT_NE(std::string::npos, sentence.find("99")) << sentence;
  EXPECT_TRUE(all_nan(wrong.out()));
  static_cast<void>(layer.forward(workspace, layer.schedule(workspace)));
  EXPECT_EQ("", first_difference(expected, layer.out()));
}

/// Three steps over memory that is full of NaN: nothing old is read.
TEST(GpuMemory, OldContentsAreNeverRead) {
  MOK_REQUIRE_GPU();
  const reference::Problem problem = reference::random_problem(mixed_problem({130, 61}, 5));
  GpuLayer layer(problem);
  Workspace workspace(patient_config(), layer.workspace_options());
  std::vector<float> expected;
  for (int step = 0; step < 3; ++step) {
    static_cast<void>(layer.forward(workspace, layer.schedule(workspace)));
    if (expected.empty()) expected = layer.out();
    EXPECT_EQ("", first_difference(expected, layer.out())) << "step " << step;
    const api::WorkspaceState& state = workspace.state();
    for (int rank = 0; rank < 2; ++rank) {
      const program::Field<bfloat16>& slots = state.symmetric_layout.slots;
      std::byte* bases[2] = {};
      require_success(cudaMemcpy(bases, state.symmetric.peers(), sizeof bases, cudaMemcpyDefault),
                      "cudaMemcpy");
      require_success(cudaMemset(slots.at(bases[rank]), kPoisonByte, static_cast<std::size_t>(slots.bytes())),
                      "cudaMemset");
    }
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

}  // namespace
}  // namespace mok::testing
