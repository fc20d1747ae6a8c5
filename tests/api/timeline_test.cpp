// SPDX-License-Identifier: Apache-2.0
// R12: what a pass did, task by task, without changing what it computes.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

/// Forward of the small layer on its two ranks.
ForwardContext forward(Refusals& layer, Timeline* timeline, bool staged = false) {
  PassOptions options = layer.harness().pass_options();
  options.timeline = timeline;
  options.staged = staged;
  return mok::forward(layer.workspace(), layer.schedule(), layer.harness().forward_inputs(), options);
}

using Key = std::tuple<int, std::string, std::int64_t, std::int64_t>;

std::multiset<Key> keys(const std::vector<TimelineEvent>& events) {
  std::multiset<Key> result;
  for (const TimelineEvent& event : events) result.insert({event.rank, event.op, event.tile, event.col});
  return result;
}

TEST(TimelineTest, HoldsEveryTaskOnce) {
  Refusals layer;
  Timeline timeline({}, 1 << 10);
  static_cast<void>(forward(layer, &timeline));
  const std::vector<TimelineEvent> events = timeline.events();
  EXPECT_EQ(timeline.dropped(), 0);
  const std::multiset<Key> found = keys(events);
  EXPECT_EQ(std::set<Key>(found.begin(), found.end()).size(), found.size()) << "a task stands there twice";
  for (const char* op : {"dispatch_x", "gate_up", "down", "weighted_sum", "shared_gate_up", "shared_down"}) {
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(
          std::any_of(events.begin(), events.end(),
                      [&](const TimelineEvent& e) { return e.op == std::string(op) && e.rank == rank; }))
          << op << " of rank " << rank;
    }
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_LE(events[i].begin_ns, events[i].end_ns);
    EXPECT_LE(events[i == 0 ? 0 : i - 1].begin_ns, events[i].begin_ns) << "not sorted";
    const bool is_dispatch = std::string(events[i].op) == "dispatch_x";
    EXPECT_EQ(std::string(events[i].actor), is_dispatch ? "dispatch" : "compute");
  }
}

// Fused and staged run the same tasks, and recording changes no bit.
TEST(TimelineTest, FusedAndStagedRecordTheSameTasks) {
  Refusals layer;
  static_cast<void>(forward(layer, nullptr));
  const LayerRun without = layer.harness().results();
  Timeline fused({}, 1 << 10);
  static_cast<void>(forward(layer, &fused));
  EXPECT_EQ(differences(without, layer.harness().results(), true), "");
  Timeline staged({}, 1 << 10);
  static_cast<void>(forward(layer, &staged, true));
  EXPECT_EQ(keys(fused.events()), keys(staged.events()));
}

TEST(TimelineTest, CountsWhatDoesNotFit) {
  Refusals layer;
  Timeline large({}, 1 << 10);
  static_cast<void>(forward(layer, &large));
  const auto tasks = static_cast<std::int64_t>(large.events().size());
  Timeline small({}, 3);
  static_cast<void>(forward(layer, &small));
  EXPECT_EQ(small.events().size(), 3u);
  EXPECT_EQ(small.dropped(), tasks - 3);
  static_cast<void>(forward(layer, &small));
  EXPECT_EQ(small.dropped(), 2 * tasks - 3);
  small.clear();
  EXPECT_TRUE(small.events().empty());
  EXPECT_EQ(small.dropped(), 0);
}

TEST(TimelineTest, WhatIsRefused) {
  const std::string range = "; it must be from 1 to 1073741824 events";
  EXPECT_EQ(refusal_of([] { const Timeline timeline({}, 0); }), "capacity is 0" + range);
  EXPECT_EQ(refusal_of([] { const Timeline timeline({}, (1 << 30) + 1); }), "capacity is 1073741825" + range);
  Timeline first;
  const Timeline second(std::move(first));
  EXPECT_EQ(refusal_of([&] { static_cast<void>(first.events()); }),  // NOLINT(bugprone-use-after-move)
            "the timeline has been moved from; use the one that it was moved to");
}

}  // namespace
}  // namespace mok::testing
