// SPDX-License-Identifier: Apache-2.0
// What a schedule tells, and what a workspace tells about a routing that cannot be run.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

constexpr std::int64_t kRowTile = 128;

Schedule schedule_of(Workspace& workspace, const std::vector<std::vector<std::int32_t>>& ids, int experts) {
  const std::int64_t topk = workspace.options().topk;
  std::vector<ConstTensorView> views;
  for (const std::vector<std::int32_t>& of_rank : ids) {
    views.emplace_back(of_rank.data(), std::initializer_list<std::int64_t>{
                                           static_cast<std::int64_t>(of_rank.size()) / topk, topk});
  }
  return build_schedule(workspace, views, experts);
}

std::vector<std::int32_t> copy(std::span<const std::int32_t> values) {
  return {values.begin(), values.end()};
}

/// The first `count` rows of an expert's segment, and that padding follows.
std::vector<std::int32_t> segment(std::span<const std::int32_t> rows, std::int64_t tile, std::int64_t count) {
  const auto begin = rows.begin() + tile * kRowTile;
  EXPECT_TRUE(std::all_of(begin + count, begin + kRowTile, [](std::int32_t value) { return value == -1; }));
  return {begin, begin + count};
}

TEST(Schedule, RowsOfEachRank) {
  Workspace workspace({}, {2, 4, 64, 2, {}});
  // Experts 0 and 1 live on rank 0, 2 and 3 on rank 1. Rank 1 brings two tokens only.
  const Schedule schedule = schedule_of(workspace, {{0, 2, 1, 0, -1, 3}, {3, 0, -1, -1}}, 4);
  EXPECT_EQ(copy(schedule.rows_per_expert(0)), (std::vector<std::int32_t>{3, 1}));
  EXPECT_EQ(copy(schedule.rows_per_expert(1)), (std::vector<std::int32_t>{1, 2}));

  // Rows stand in order of (source rank, token, k).
  EXPECT_EQ(segment(schedule.source_rank(0), 0, 3), (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(segment(schedule.source_slot(0), 0, 3), (std::vector<std::int32_t>{0, 3, 1}));
  EXPECT_EQ(segment(schedule.source_rank(0), 1, 1), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(segment(schedule.source_slot(0), 1, 1), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(segment(schedule.source_rank(1), 0, 1), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(segment(schedule.source_slot(1), 0, 1), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(segment(schedule.source_rank(1), 1, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(segment(schedule.source_slot(1), 1, 2), (std::vector<std::int32_t>{5, 0}));

  // 8 slots a rank, of two ranks; a tile of padding for each local expert.
  EXPECT_EQ(schedule.source_rank(0).size(), (1 + 2) * kRowTile);
  EXPECT_EQ(schedule.source_slot(1).size(), (1 + 2) * kRowTile);
}

TEST(Schedule, NoTokensAnywhere) {
  Workspace workspace({}, {2, 4, 64, 2, {}});
  const Schedule schedule = schedule_of(workspace, {{}, {}}, 4);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(copy(schedule.rows_per_expert(rank)), (std::vector<std::int32_t>{0, 0}));
    for (const std::int32_t source : schedule.source_rank(rank)) EXPECT_EQ(source, -1);
    for (const std::int32_t slot : schedule.source_slot(rank)) EXPECT_EQ(slot, -1);
  }
  EXPECT_EQ(workspace.status().kind, StatusKind::ok);
}

TEST(Status, OkFromTheStart) {
  const Workspace workspace({}, {1, 4, 64, 1, {}});
  EXPECT_EQ(workspace.status().kind, StatusKind::ok);
  EXPECT_EQ(workspace.status().sentence(), "ok");
  EXPECT_NO_THROW(workspace.check());
}

/// What check() throws.
std::string check_of(const Workspace& workspace) {
  try {
    workspace.check();
  } catch (const RoutingError& error) {
    return error.what();
  }
  return "nothing is wrong";
}

// R = 8 ranks with 16 slots each hold 32 rows by the smallest multiplier; all 128 routes go to rank 5.
TEST(Overflow, IsReportedByNameUntilTheNextSchedule) {
  Config config;
  config.schedule_capacity_multiplier = 0.01;
  Workspace workspace(config, {8, 8, 64, 2, {}});
  std::vector<std::int32_t> hot;
  for (int token = 0; token < 8; ++token) hot.insert(hot.end(), {11, token == 0 ? 10 : 11});
  const Schedule refused = schedule_of(workspace, std::vector(8, hot), 16);

  const Status status = workspace.status();
  EXPECT_EQ(status.kind, StatusKind::capacity_overflow);
  EXPECT_EQ(status.rank, 5);
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.expert, 11);
  EXPECT_EQ(status.rows, 128);
  EXPECT_EQ(status.capacity, 32);
  EXPECT_EQ(status.multiplier, 1.0);
  EXPECT_EQ(check_of(workspace), status.sentence());
  EXPECT_EQ(
      status.sentence(),
      "rank 5 got 128 routed rows, more than the 32 that its tables hold (its fullest expert is 11); nothing "
      "was computed and the outputs are NaN; a schedule_capacity_multiplier of 1 would do");
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(copy(refused.rows_per_expert(rank)), (std::vector<std::int32_t>{0, 0}));
    for (const std::int32_t source : refused.source_rank(rank)) EXPECT_EQ(source, -1);
  }

  static_cast<void>(schedule_of(workspace, std::vector(8, std::vector<std::int32_t>{0, 1}), 16));
  EXPECT_EQ(check_of(workspace), "nothing is wrong");
}

// For any number of ranks, rounding the printed multiplier included.
TEST(Overflow, TheMultiplierNamedWouldDo) {
  for (const int ranks : {3, 5, 7, 9, 11, 13}) {
    for (int full = 3; full <= ranks; ++full) {
      std::vector<std::vector<std::int32_t>> ids;
      for (int rank = 0; rank < ranks; ++rank) {
        ids.emplace_back(8, rank < full ? 0 : -1);  // `full` ranks send all they have to rank 0
      }
      Config config;
      config.schedule_capacity_multiplier = 1e-6;
      Workspace small(config, {ranks, 8, 64, 1, {}});
      static_cast<void>(schedule_of(small, ids, ranks));
      ASSERT_EQ(small.status().kind, StatusKind::capacity_overflow) << ranks << " ranks, " << full << " full";
      const std::string sentence = small.status().sentence();
      const std::size_t begin = sentence.find("multiplier of ") + std::string("multiplier of ").size();
      for (const double multiplier : {small.status().multiplier, std::stod(sentence.substr(begin))}) {
        config.schedule_capacity_multiplier = multiplier;
        Workspace large(config, {ranks, 8, 64, 1, {}});
        static_cast<void>(schedule_of(large, ids, ranks));
        EXPECT_EQ(large.status().kind, StatusKind::ok)
            << ranks << " ranks, " << full << " full: " << multiplier;
      }
    }
  }
}

TEST(ExpertId, OutOfRangeIsReportedByName) {
  Workspace workspace({}, {2, 4, 64, 2, {}});
  const Schedule refused = schedule_of(workspace, {{0, 1, 2, 3}, {0, 1, 2, 4}}, 4);
  const Status status = workspace.status();
  EXPECT_EQ(status.kind, StatusKind::expert_id_out_of_range);
  EXPECT_EQ(status.rank, 1);
  EXPECT_EQ(status.token, 1);
  EXPECT_EQ(status.choice, 1);
  EXPECT_EQ(status.expert_id, 4);
  EXPECT_EQ(status.num_experts, 4);
  EXPECT_EQ(check_of(workspace),
            "rank 1 brought expert id 4 for token 1, choice 1; ids must be -1 (dropped) or from 0 to 3; "
            "nothing was "
            "computed and the outputs are NaN");
  EXPECT_EQ(copy(refused.rows_per_expert(0)), (std::vector<std::int32_t>{0, 0}));

  static_cast<void>(schedule_of(workspace, {{-2, 1}, {0, 1}}, 4));
  EXPECT_EQ(workspace.status().expert_id, -2);
}

// Ids of 64 bits must not wrap into the range.
TEST(ExpertId, BeyondThirtyTwoBits) {
  Workspace workspace({}, {1, 4, 64, 1, {}});
  for (const std::int64_t id :
       {std::int64_t{1} << 32, -(std::int64_t{1} << 32) - 1, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    const std::vector<ConstTensorView> views{{&id, {1, 1}}};
    static_cast<void>(build_schedule(workspace, views, 4));
    EXPECT_EQ(workspace.status().kind, StatusKind::expert_id_out_of_range) << id;
    EXPECT_EQ(
        check_of(workspace).find("rank 0 brought expert id -2147483648 (or one beyond 32 bits) for token 0"),
        0u)
        << check_of(workspace);
  }
}

// R3: passes do not throw and do not trap. They write NaN, and leave a main_grad alone.
TEST(RefusedSchedule, PassesWriteNaNAndGoOn) {
  for (const bool main_grad : {false, true}) {
    reference::Problem broken = small_problem();
    broken.ranks[1].topk_experts[0] = 4;
    RunOptions options;
    options.main_grad = main_grad;
    LayerHarness harness(broken, options);
    Workspace workspace({}, harness.workspace_options());
    const Schedule schedule = harness.schedule(workspace);
    const ForwardContext context = harness.forward(workspace, schedule);
    static_cast<void>(harness.recompute(workspace, schedule));
    harness.backward(workspace, schedule, context);
    EXPECT_EQ(workspace.status().kind, StatusKind::expert_id_out_of_range);

    const LayerRun run = harness.results();
    const auto all = [](const std::vector<float>& values, const auto& predicate) {
      return !values.empty() && std::all_of(values.begin(), values.end(), predicate);
    };
    const auto is_nan = [](float value) { return std::isnan(value); };
    for (const auto* values : {&run.out, &run.d_x, &run.d_router_weights}) EXPECT_TRUE(all(*values, is_nan));
    for (const auto* values :
         {&run.d_gate, &run.d_up, &run.d_down, &run.d_shared_gate, &run.d_shared_up, &run.d_shared_down}) {
      EXPECT_TRUE(main_grad ? all(*values, [](float value) { return value == 0; }) : all(*values, is_nan));
    }

    // The workspace is as good as before.
    const reference::Problem good = small_problem();
    LayerHarness next(good, options);
    const Schedule second = next.schedule(workspace);
    next.backward(workspace, second, next.forward(workspace, second));
    EXPECT_NO_THROW(workspace.check());
    EXPECT_EQ(differences(run_layer(good, options), next.results(), true), "");
  }
}

TEST(Backends, NameWhatCanRun) {
  const std::vector<BackendInfo> all = backends();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "cpu");
  EXPECT_TRUE(all[0].available);
  EXPECT_EQ(all[1].name, "cuda");
  for (const BackendInfo& backend : all) EXPECT_FALSE(backend.reason.empty()) << backend.name;
}

}  // namespace
}  // namespace mok::testing
