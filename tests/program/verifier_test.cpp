// SPDX-License-Identifier: Apache-2.0
// The verifier finds nothing to object to, whatever the shape and the routing.
#include "program/verifier.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "program/routing.h"

namespace mok::program {
namespace {

std::string joined(const std::vector<std::string>& problems) {
  std::ostringstream out;
  for (const std::string& problem : problems) out << "\n  " << problem;
  return out.str();
}

void expect_proven(const Schedules& schedules) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    const std::vector<std::string> problems = verify(schedules.dims, schedules.tables, pass);
    EXPECT_TRUE(problems.empty()) << name(pass) << " of " << schedules.shape << joined(problems);
  }
}

Shape random_shape(Random& random) {
  Shape shape;
  shape.ranks = random.one_of({1, 2, 3, 4, 8});
  shape.topk = static_cast<int>(random.between(1, 4));
  shape.experts = shape.ranks * static_cast<int>(random.between(1, 6));
  shape.max_tokens = random.between(1, 700);
  shape.hidden = 64 * random.between(1, 5);
  shape.intermediate = 64 * random.between(1, 5);
  shape.shared = random.between(0, 2) == 0 ? 0 : 64 * random.between(1, 5);
  shape.minibatch = 128 * random.one_of({1, 2, 3, 4, 8});
  shape.macrobatch = shape.minibatch * random.between(1, 4096 / shape.minibatch);
  // Short rings meet all the boundaries, so half of the shapes have one.
  if (random.between(0, 1) == 0) shape.macrobatch = shape.minibatch * random.between(1, 2);
  shape.tile = random.between(0, 1) == 0 ? kCpuTiles : kGpuTiles;
  return shape;
}

TEST(Verifier, ProvesRandomShapes) {
  const int shapes = small_run() ? 150 : 1500;
  for (int i = 0; i < shapes; ++i) {
    Random random(1000 + i);
    const Shape shape = random_shape(random);
    const RoutingKind kind = kRoutingKinds[i % std::size(kRoutingKinds)];
    SCOPED_TRACE("shape " + std::to_string(i));
    const Schedules schedules(shape, make_routing(shape, kind, i, random.between(0, 1) == 0));
    ASSERT_EQ(schedules.header(0).refusal, Refusal::none);
    expect_proven(schedules);
    if (HasFailure()) break;
  }
}

TEST(Verifier, ProvesDefaultCapacity) {
  for (int i = 0; i < 20; ++i) {
    Random random(i);
    Shape shape = random_shape(random);
    shape.multiplier = 0.5;
    const Schedules schedules(shape, make_routing(shape, RoutingKind::uniform, i));
    if (schedules.header(0).refusal == Refusal::none) expect_proven(schedules);
  }
}

TEST(Verifier, ProvesAnExpertOverThreeMacrobatches) {
  for (const std::int64_t macrobatch : {128, 256, 512}) {
    for (const TileShape& tile : {kCpuTiles, kGpuTiles}) {
      Shape shape;
      shape.ranks = 2;
      shape.experts = 6;
      shape.max_tokens = 3 * macrobatch;
      shape.hidden = 320;
      shape.intermediate = 192;
      shape.macrobatch = macrobatch;
      shape.tile = tile;
      const Schedules schedules(shape, make_routing(shape, RoutingKind::one_expert, 5));
      const std::int64_t most = std::max(schedules.header(0).num_tiles, schedules.header(1).num_tiles);
      ASSERT_GE(most * kRowTile, 3 * macrobatch);
      expect_proven(schedules);
    }
  }
}

TEST(Verifier, ProvesOneMinibatchPerMacrobatch) {
  for (const RoutingKind kind : kRoutingKinds) {
    Shape shape;
    shape.ranks = 4;
    shape.experts = 8;
    shape.max_tokens = 500;
    shape.shared = 64;
    shape.minibatch = 256;
    shape.macrobatch = 256;
    expect_proven(Schedules(shape, make_routing(shape, kind, 3)));
  }
}

TEST(Verifier, ProvesRanksWithoutTokens) {
  Shape shape;
  shape.ranks = 4;
  shape.experts = 8;
  shape.shared = 128;
  Routing routing = make_routing(shape, RoutingKind::uniform, 1);
  for (const int rank : {0, 2}) {
    routing.num_tokens[rank] = 0;
    const std::int64_t slots = shape.max_tokens * shape.topk;
    std::fill_n(routing.ids.begin() + rank * slots, slots, -1);
  }
  expect_proven(Schedules(shape, routing));
  std::fill(routing.num_tokens.begin(), routing.num_tokens.end(), 0);
  std::fill(routing.ids.begin(), routing.ids.end(), -1);
  expect_proven(Schedules(shape, routing));
}

/// The stretches count what the routing decides, so a schedule made without any layer serves layers of all
/// widths.
TEST(Verifier, ProvesEveryLayerOnOneSchedule) {
  Shape shape;
  shape.ranks = 2;
  shape.experts = 6;
  shape.max_tokens = 600;
  shape.macrobatch = 256;
  shape.hidden = shape.intermediate = 0;
  Schedules schedules(shape, make_routing(shape, RoutingKind::skewed, 4, true));
  for (int i = 0; i < 24; ++i) {
    Random random(i);
    schedules.shape.hidden = 64 * random.between(1, 6);
    schedules.shape.intermediate = 64 * random.between(1, 6);
    schedules.shape.shared = 64 * random.between(0, 4);
    schedules.shape.tile = random.one_of({kCpuTiles, kGpuTiles});
    for (int rank = 0; rank < 2; ++rank) schedules.dims[rank] = schedules.shape.dims(rank);
    expect_proven(schedules);
  }
}

TEST(Verifier, AcceptsARefusedSchedule) {
  Shape shape;
  shape.ranks = 4;
  shape.multiplier = 0.25;
  const Schedules schedules(shape, make_routing(shape, RoutingKind::one_expert, 1));
  ASSERT_EQ(schedules.header(0).refusal, Refusal::capacity_overflow);
  expect_proven(schedules);
}

}  // namespace
}  // namespace mok::program
