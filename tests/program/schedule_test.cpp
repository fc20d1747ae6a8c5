// SPDX-License-Identifier: Apache-2.0
// The tables of rows and tokens against an expectation written down by brute force.
#include "program/schedule.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "program/routing.h"

namespace mok::program {
namespace {

/// A route in global order.
struct Route {
  std::int32_t expert, source;
  std::int64_t token, choice;
  auto key() const { return std::tie(expert, source, token, choice); }
};

/// All routes, by (expert, source rank, token, k).
std::vector<Route> sorted_routes(const Shape& shape, const Routing& routing) {
  std::vector<Route> routes;
  for (std::int32_t p = 0; p < shape.ranks; ++p) {
    for (std::int64_t t = 0; t < shape.max_tokens; ++t) {
      for (std::int64_t k = 0; k < shape.topk; ++k) {
        const std::int32_t id = routing.ids[(p * shape.max_tokens + t) * shape.topk + k];
        if (id >= 0) routes.push_back({id, p, t, k});
      }
    }
  }
  std::sort(routes.begin(), routes.end(), [](const Route& a, const Route& b) { return a.key() < b.key(); });
  return routes;
}

/// What one rank's tables should hold.
struct ExpectedRows {
  std::vector<std::int32_t> source, slot, rows, first_tile, tile_expert;
};

ExpectedRows expected_rows(const Shape& shape, const std::vector<Route>& routes, int rank) {
  const Dims dims = shape.dims(rank);
  ExpectedRows expected;
  const int local = shape.experts / shape.ranks;
  for (int e = 0; e < local; ++e) {
    expected.first_tile.push_back(static_cast<std::int32_t>(expected.source.size() / 128));
    std::int32_t rows = 0;
    for (const Route& route : routes) {
      if (route.expert != rank * local + e) continue;
      expected.source.push_back(route.source);
      expected.slot.push_back(static_cast<std::int32_t>(route.token * shape.topk + route.choice));
      ++rows;
    }
    expected.rows.push_back(rows);
    while (expected.source.size() % 128 != 0) {
      expected.source.push_back(-1);
      expected.slot.push_back(-1);
    }
    while (expected.tile_expert.size() < expected.source.size() / 128) expected.tile_expert.push_back(e);
  }
  expected.first_tile.push_back(static_cast<std::int32_t>(expected.source.size() / 128));
  expected.source.resize(dims.capacity_rows(), -1);
  expected.slot.resize(dims.capacity_rows(), -1);
  expected.tile_expert.resize(dims.capacity_tiles(), -1);
  return expected;
}

template <class T>
std::vector<T> table(const T* first, std::int64_t count) {
  return {first, first + count};
}

void expect_rows(const Schedules& schedules) {
  const Shape& shape = schedules.shape;
  const std::vector<Route> routes = sorted_routes(shape, schedules.routing);
  std::vector<std::int64_t> rank_tiles;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << shape);
    const ExpectedRows expected = expected_rows(shape, routes, rank);
    const ScheduleTables& t = schedules.tables[rank];
    const Dims& dims = schedules.dims[rank];
    EXPECT_EQ(table(t.source_rank, dims.capacity_rows()), expected.source);
    EXPECT_EQ(table(t.source_slot, dims.capacity_rows()), expected.slot);
    EXPECT_EQ(table(t.rows_per_expert, dims.local_experts()), expected.rows);
    EXPECT_EQ(table(t.first_tile, dims.local_experts() + 1), expected.first_tile);
    EXPECT_EQ(table(t.tile_expert, dims.capacity_tiles()), expected.tile_expert);
    const auto ids = schedules.routing.ids.begin() + rank * dims.slots();
    EXPECT_EQ(table(t.topk_experts, dims.slots()), std::vector<std::int32_t>(ids, ids + dims.slots()));
    EXPECT_EQ(t.header->num_tokens, schedules.routing.num_tokens[rank]);
    EXPECT_EQ(t.header->num_tiles, expected.first_tile.back());
    EXPECT_EQ(t.header->refusal, Refusal::none);
    rank_tiles.push_back(expected.first_tile.back());
  }
  std::int64_t max_steps = 0;
  for (const std::int64_t tiles : rank_tiles) {
    max_steps = std::max(max_steps, ceil_div(tiles * 128, shape.minibatch));
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    EXPECT_EQ(table(schedules.tables[rank].rank_tiles, shape.ranks), rank_tiles);
    EXPECT_EQ(schedules.header(rank).max_steps, max_steps);
  }
}

/// Row tile -> step of the pass, by walking the pass: forward takes the macrobatches from last to first.
std::vector<std::int64_t> steps_by_tile(const Shape& shape, std::int64_t tiles, Pass pass) {
  const std::int64_t per_mini = shape.minibatch / 128;
  const std::int64_t per_macro = shape.macrobatch / 128;
  std::vector<std::int64_t> step(tiles, -1);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < ceil_div(tiles, per_macro); ++i) {
    const std::int64_t macro = pass == Pass::forward ? ceil_div(tiles, per_macro) - 1 - i : i;
    const std::int64_t end = std::min(tiles, (macro + 1) * per_macro);
    for (std::int64_t first = macro * per_macro; first < end; first += per_mini, ++next) {
      for (std::int64_t tile = first; tile < std::min(end, first + per_mini); ++tile) step[tile] = next;
    }
  }
  return step;
}

/// For each token of a rank, how many steps (of all ranks) fill its slots.
std::vector<std::int64_t> token_needs(const Schedules& schedules, int rank, Pass pass) {
  std::vector<std::int64_t> needs(schedules.routing.num_tokens[rank], 0);
  for (int q = 0; q < schedules.shape.ranks; ++q) {
    const ScheduleTables& t = schedules.tables[q];
    const std::vector<std::int64_t> step = steps_by_tile(schedules.shape, t.header->num_tiles, pass);
    for (std::int64_t row = 0; row < t.header->num_tiles * 128; ++row) {
      if (t.source_rank[row] != rank) continue;
      std::int64_t& need = needs[t.source_slot[row] / schedules.shape.topk];
      need = std::max(need, step[row / 128] + 1);
    }
  }
  return needs;
}

void expect_token_order(const Schedules& schedules, int rank, Pass pass) {
  SCOPED_TRACE(testing::Message() << name(pass) << ", rank " << rank << " of " << schedules.shape);
  const std::int64_t tokens = schedules.routing.num_tokens[rank];
  const std::int32_t* order = schedules.tables[rank].token_order[sum_table(pass)];
  const std::int32_t* groups_after = schedules.tables[rank].sum_begin[sum_table(pass)];
  const std::vector<std::int64_t> needs = token_needs(schedules, rank, pass);
  std::vector<std::int32_t> expected(tokens);
  for (std::int32_t t = 0; t < tokens; ++t) expected[t] = t;
  std::stable_sort(expected.begin(), expected.end(),
                   [&](std::int32_t a, std::int32_t b) { return needs[a] < needs[b]; });
  EXPECT_EQ(table(order, tokens), expected);
  const std::int64_t steps = schedules.header(rank).max_steps;
  for (std::int64_t i = 0; i <= steps; ++i) {
    const std::int64_t ready =
        std::count_if(needs.begin(), needs.end(), [&](std::int64_t n) { return n <= i; });
    // The last step takes the rest; tokens without routes wait for the first place where sums stand.
    const std::int64_t groups = i == steps ? ceil_div<std::int64_t>(tokens, 32) : i == 0 ? 0 : ready / 32;
    EXPECT_EQ(groups_after[i], groups) << "after " << i << " steps";
    for (std::int64_t at = 0; at < std::min<std::int64_t>(tokens, groups_after[i] * 32); ++at) {
      ASSERT_LE(needs[order[at]], i) << "token " << order[at];
    }
  }
}

void expect_schedule(const Schedules& schedules) {
  expect_rows(schedules);
  for (int rank = 0; rank < schedules.shape.ranks; ++rank) {
    for (const Pass pass : {Pass::forward, Pass::backward}) expect_token_order(schedules, rank, pass);
  }
}

Shape small_shape(int ranks, int topk, int experts, std::int64_t max_tokens) {
  Shape shape;
  shape.ranks = ranks;
  shape.topk = topk;
  shape.experts = experts;
  shape.max_tokens = max_tokens;
  return shape;
}

TEST(Schedule, RandomRoutings) {
  const int cases = small_run() ? 24 : 120;
  for (int i = 0; i < cases; ++i) {
    Random random(i);
    const int ranks = random.one_of({1, 2, 3, 4, 8});
    const int topk = static_cast<int>(random.between(1, 5));
    const int experts = ranks * static_cast<int>(random.between(1, 5));
    Shape shape = small_shape(ranks, topk, experts, random.between(1, 400));
    shape.minibatch = 128 * random.between(1, 4);
    shape.macrobatch = shape.minibatch * random.between(1, 4);
    const RoutingKind kind = kRoutingKinds[i % std::size(kRoutingKinds)];
    expect_schedule(Schedules(shape, make_routing(shape, kind, i, random.between(0, 1) == 0)));
    if (HasFailure()) break;
  }
}

TEST(Schedule, SmallestSizes) {
  for (const RoutingKind kind : {RoutingKind::uniform, RoutingKind::dropped, RoutingKind::all_dropped}) {
    expect_schedule(Schedules(small_shape(1, 1, 1, 1), make_routing(small_shape(1, 1, 1, 1), kind, 1)));
    expect_schedule(Schedules(small_shape(1, 1, 1, 300), make_routing(small_shape(1, 1, 1, 300), kind, 1)));
    expect_schedule(Schedules(small_shape(4, 1, 4, 100), make_routing(small_shape(4, 1, 4, 100), kind, 1)));
    expect_schedule(Schedules(small_shape(1, 3, 1, 129), make_routing(small_shape(1, 3, 1, 129), kind, 1)));
  }
}

TEST(Schedule, RanksWithoutTokens) {
  const Shape shape = small_shape(4, 2, 8, 200);
  Routing routing = make_routing(shape, RoutingKind::uniform, 1);
  for (const int rank : {1, 3}) {
    routing.num_tokens[rank] = 0;
    std::fill_n(routing.ids.begin() + rank * 400, 400, -1);
  }
  routing.num_tokens[2] = 37;
  std::fill_n(routing.ids.begin() + 2 * 400 + 37 * 2, 400 - 37 * 2, -1);
  expect_schedule(Schedules(shape, routing));
}

TEST(Schedule, ExpertsWithoutRows) {
  const Shape shape = small_shape(2, 2, 12, 200);
  Routing routing = make_routing(shape, RoutingKind::uniform, 1);
  for (std::int32_t& id : routing.ids)
    id = id % 3 == 0 ? 4 : id % 3 == 1 ? 7 : 10;  // the first and last have none
  const Schedules schedules(shape, routing);
  expect_schedule(schedules);
  for (const int rank : {0, 1}) EXPECT_EQ(schedules.tables[rank].rows_per_expert[0], 0);
}

/// Per global expert: the (global token, k) of its rows in row order.
std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> rows_of_experts(const Schedules& schedules) {
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> experts;
  const Shape& shape = schedules.shape;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const ScheduleTables& t = schedules.tables[rank];
    for (int e = 0; e < shape.experts / shape.ranks; ++e) {
      auto& rows = experts.emplace_back();
      for (std::int64_t i = 0; i < t.rows_per_expert[e]; ++i) {
        const std::int64_t row = t.first_tile[e] * kRowTile + i;
        const std::int64_t token = t.source_rank[row] * shape.max_tokens + t.source_slot[row] / shape.topk;
        rows.emplace_back(token, t.source_slot[row] % shape.topk);
      }
    }
  }
  return experts;
}

TEST(Schedule, RowOrderDoesNotDependOnR) {
  for (const RoutingKind kind : {RoutingKind::uniform, RoutingKind::skewed, RoutingKind::dropped}) {
    const Shape one = small_shape(1, 3, 16, 640);
    const Routing routing = make_routing(one, kind, 9);
    const auto expected = rows_of_experts(Schedules(one, routing));
    for (const int ranks : {2, 4, 8}) {
      const Shape shape = small_shape(ranks, 3, 16, 640 / ranks);
      const Routing split{std::vector<std::int64_t>(ranks, 640 / ranks), routing.ids};
      EXPECT_EQ(rows_of_experts(Schedules(shape, split)), expected) << ranks << " ranks";
    }
  }
}

TEST(Schedule, LeavesNoOldMemoryInTheTokenTables) {
  Shape shape = small_shape(2, 2, 6, 300);
  shape.macrobatch = 256;
  const Routing routing = make_routing(shape, RoutingKind::dropped, 2, true);
  const Schedules one(shape, routing, 0x00), other(shape, routing, 0xa5);
  ASSERT_LT(routing.num_tokens[1], shape.max_tokens);
  const std::int64_t steps = shape.dims(1).max_steps();
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const int p = sum_table(pass);
    EXPECT_EQ(table(one.tables[1].sum_begin[p], steps + 1), table(other.tables[1].sum_begin[p], steps + 1));
    EXPECT_EQ(table(one.tables[1].token_order[p], 300), table(other.tables[1].token_order[p], 300));
  }
}

}  // namespace
}  // namespace mok::program
