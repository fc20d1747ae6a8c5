// SPDX-License-Identifier: Apache-2.0
// Schedules that cannot be run: every rank says so, alike, and leaves empty tables.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "program/routing.h"
#include "program/schedule.h"

namespace mok::program {
namespace {

/// Nothing to run, and every row and expert table as before any routing.
void expect_empty(const Schedules& schedules) {
  for (int rank = 0; rank < schedules.shape.ranks; ++rank) {
    SCOPED_TRACE(rank);
    const ScheduleTables& t = schedules.tables[rank];
    const Dims& dims = schedules.dims[rank];
    EXPECT_EQ(t.header->num_tiles, 0);
    EXPECT_EQ(t.header->max_steps, 0);
    EXPECT_EQ(t.header->num_tokens, schedules.routing.num_tokens[rank]);
    for (int pass = 0; pass < kNumPasses; ++pass) {
      for (int role = 0; role < kNumRoles; ++role) {
        EXPECT_EQ(num_tasks(dims, t, static_cast<Pass>(pass), static_cast<Role>(role)), 0);
        EXPECT_EQ(t.header->num_stretches[pass][role], 0);
      }
    }
    const auto all = [](const auto* values, std::int64_t count, std::int64_t value) {
      return std::all_of(values, values + count, [&](auto v) { return v == value; });
    };
    EXPECT_TRUE(all(t.source_rank, dims.capacity_rows(), -1));
    EXPECT_TRUE(all(t.source_slot, dims.capacity_rows(), -1));
    EXPECT_TRUE(all(t.tile_expert, dims.capacity_tiles(), -1));
    EXPECT_TRUE(all(t.rows_per_expert, dims.local_experts(), 0));
    EXPECT_TRUE(all(t.first_tile, dims.local_experts() + 1, 0));
    EXPECT_TRUE(all(t.rank_tiles, dims.ranks, 0));
  }
}

Shape four_ranks() {
  Shape shape;
  shape.ranks = 4;
  shape.experts = 8;
  shape.max_tokens = 100;
  shape.multiplier = 0.25;
  return shape;
}

TEST(Refusal, OverflowIsDecidedAlike) {
  const Shape shape = four_ranks();
  Routing routing = make_routing(shape, RoutingKind::one_expert, 1);
  // All to rank 2, whose expert 5 gets the most.
  for (std::size_t i = 0; i < routing.ids.size(); ++i) routing.ids[i] = i % 3 == 0 ? 4 : 5;
  const Schedules schedules(shape, routing);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const ScheduleHeader& header = schedules.header(rank);
    EXPECT_EQ(header.refusal, Refusal::capacity_overflow);
    EXPECT_EQ(header.refusal_rank, 2);
    EXPECT_EQ(header.refusal_expert, 5);
    EXPECT_EQ(header.refusal_rows, 4 * 100 * 2);
  }
  expect_empty(schedules);
}

TEST(Refusal, NamesTheFullestRank) {
  const Shape shape = four_ranks();  // 400 rows are too many
  Routing routing = make_routing(shape, RoutingKind::all_dropped, 1);
  std::fill_n(routing.ids.begin(), 401, 1);        // rank 0
  std::fill_n(routing.ids.begin() + 401, 399, 6);  // rank 3
  EXPECT_EQ(Schedules(shape, routing).header(1).refusal_rank, 0);
  std::fill_n(routing.ids.begin(), 300, -1);
  std::fill_n(routing.ids.begin() + 300, 50, 7);
  const Schedules schedules(shape, routing);
  EXPECT_EQ(schedules.header(1).refusal_rank, 3);
  EXPECT_EQ(schedules.header(1).refusal_expert, 6);
  EXPECT_EQ(schedules.header(1).refusal_rows, 449);
}

TEST(Refusal, CapacityIsReachedExactly) {
  const Shape shape = four_ranks();
  Routing routing = make_routing(shape, RoutingKind::all_dropped, 1);
  const std::int64_t capacity = shape.dims(0).routed_capacity;
  ASSERT_EQ(capacity, 2 * 100 * 2);
  std::fill_n(routing.ids.begin(), capacity, 3);
  EXPECT_EQ(Schedules(shape, routing).header(0).refusal, Refusal::none);
  routing.ids[capacity] = 2;
  const Schedules schedules(shape, routing);
  EXPECT_EQ(schedules.header(0).refusal, Refusal::capacity_overflow);
  EXPECT_EQ(schedules.header(3).refusal_rank, 1);
  EXPECT_EQ(schedules.header(3).refusal_expert, 3);
  EXPECT_EQ(schedules.header(3).refusal_rows, capacity + 1);
}

TEST(Refusal, IdsOutOfRangeAreNamed) {
  for (const std::int32_t id :
       {8, -2, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
    const Shape shape = four_ranks();
    Routing routing = make_routing(shape, RoutingKind::uniform, 1);
    routing.ids[(2 * 100 + 17) * 2 + 1] = id;
    routing.ids[(3 * 100 + 1) * 2] = id;  // a later one: the first is named
    const Schedules schedules(shape, routing);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const ScheduleHeader& header = schedules.header(rank);
      EXPECT_EQ(header.refusal, Refusal::expert_id_out_of_range);
      EXPECT_EQ(header.refusal_rank, 2);
      EXPECT_EQ(header.refusal_token, 17);
      EXPECT_EQ(header.refusal_choice, 1);
      EXPECT_EQ(header.refusal_expert, id);
    }
    expect_empty(schedules);
  }
}

TEST(Refusal, IsForgottenByTheNextSchedule) {
  const Shape shape = four_ranks();
  Schedules schedules(shape, make_routing(shape, RoutingKind::one_expert, 1));
  ASSERT_EQ(schedules.header(0).refusal, Refusal::capacity_overflow);
  const Routing routing = make_routing(shape, RoutingKind::uniform, 2);
  const auto layout = make_layout<ScheduleLayout>(schedules.dims[0]);
  auto* base = reinterpret_cast<std::byte*>(schedules.memory[0].data());
  std::copy(routing.ids.begin(), routing.ids.end(), layout.gathered.at(base));
  build_schedule(schedules.dims[0],
                 {layout.gathered.at(base), 100, layout.histogram.at(base), layout.expert_tile.at(base)},
                 schedules.tables[0]);
  const Schedules fresh(shape, routing);
  EXPECT_EQ(schedules.header(0).refusal, Refusal::none);
  EXPECT_EQ(schedules.header(0).refusal_rank, -1);
  EXPECT_EQ(schedules.header(0).num_tiles, fresh.header(0).num_tiles);
}

TEST(Refusal, LeavesNoOldMemoryInTheTokenTables) {
  const Shape shape = four_ranks();
  const Routing routing = make_routing(shape, RoutingKind::one_expert, 1);
  const Schedules one(shape, routing, 0x00), other(shape, routing, 0xa5);
  const std::int64_t steps = shape.dims(0).max_steps();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const std::int32_t* first = one.tables[0].sum_begin[sum_table(pass)];
    const std::int32_t* second = other.tables[0].sum_begin[sum_table(pass)];
    EXPECT_TRUE(std::equal(first, first + steps + 1, second)) << name(pass);
    const std::int32_t* first_order = one.tables[0].token_order[sum_table(pass)];
    const std::int32_t* second_order = other.tables[0].token_order[sum_table(pass)];
    EXPECT_TRUE(std::equal(first_order, first_order + shape.max_tokens, second_order)) << name(pass);
  }
}

TEST(Capacity, Formula) {
  EXPECT_EQ(routed_capacity(100, 1, 0.5), 100);  // never more than all ranks can send
  EXPECT_EQ(routed_capacity(100, 2, 0.5), 200);
  EXPECT_EQ(routed_capacity(100, 4, 0.25), 200);  // at least twice a rank's own routes
  EXPECT_EQ(routed_capacity(100, 8, 0.5), 400);
  EXPECT_EQ(routed_capacity(100, 8, 0.51), 500);
  EXPECT_EQ(routed_capacity(100, 8, 1.0), 800);
  EXPECT_EQ(routed_capacity(0, 8, 1.0), 0);
  EXPECT_EQ(routed_capacity(100, 72, 0.5), 3600);
}

TEST(Capacity, FullMultiplierNeverOverflows) {
  for (const int ranks : {1, 2, 3, 8}) {
    Shape shape;
    shape.ranks = ranks;
    shape.experts = 3 * ranks;
    shape.max_tokens = 130;
    for (int seed = 0; seed < 6; ++seed) {
      const Schedules schedules(shape, make_routing(shape, RoutingKind::one_expert, seed));
      EXPECT_EQ(schedules.header(0).refusal, Refusal::none);
    }
    // As many partly filled tiles as there can be: a row for each expert, the rest to the last.
    Routing routing = make_routing(shape, RoutingKind::one_expert, 0);
    for (std::size_t i = 0; i < routing.ids.size(); ++i) {
      routing.ids[i] = static_cast<std::int32_t>(std::min<std::size_t>(i, 2));
    }
    const Schedules schedules(shape, routing);
    EXPECT_EQ(schedules.header(0).refusal, Refusal::none);
    EXPECT_LE(schedules.header(0).num_tiles, schedules.dims[0].capacity_tiles());
  }
}

}  // namespace
}  // namespace mok::program
