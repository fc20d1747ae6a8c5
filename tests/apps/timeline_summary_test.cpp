// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_summary.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "timeline_events.h"

namespace mok::tool {
namespace {

/// An SM whose two consumers work on the same tasks, its loads ahead and its stores behind; an SM that
/// dispatches.
std::vector<TimelineEvent> of_a_gpu() {
  std::vector<TimelineEvent> events = {
      event("dispatch_x", "dispatch", 1, 1000, 1200, 5), event("gate_up", "load", 0, 1100, 1300, 5),
      event("gate_up", "consumer0", 0, 1200, 1400, 5),   event("gate_up", "consumer1", 0, 1210, 1500, 5),
      event("down", "consumer0", 0, 1450, 1600, 5),      event("down", "consumer1", 0, 1500, 1650, 5),
      event("down", "store", 0, 1600, 2000, 5)};
  events[0].bytes = 400;
  events[1].bytes = 1000;
  return events;
}

TEST(TimelineSummary, CountsATaskOnceAndTimeByItsWorkers) {
  const TimelineSummary summary = summarize(of_a_gpu());
  EXPECT_EQ(summary.begin_ns, 1000U);
  EXPECT_EQ(summary.duration_ns, 1000U);
  ASSERT_EQ(summary.ops.size(), 3U);
  const OpCost& dispatch = summary.ops[0];
  EXPECT_EQ(dispatch.name, "dispatch_x");
  EXPECT_EQ(dispatch.worker_ns, 200U);
  EXPECT_EQ(dispatch.bytes, 400);
  const OpCost& gate_up = summary.ops[1];
  EXPECT_EQ(gate_up.tasks, 1) << "three actors, one task";
  EXPECT_EQ(gate_up.worker_ns, 300U) << "from the first consumer's begin to the second's end";
  EXPECT_EQ(gate_up.running_ns, 400U) << "the load is part of it";
  EXPECT_EQ(gate_up.bytes, 1000);
  EXPECT_EQ(summary.ops[2].worker_ns, 150U) << "from the end of gate_up; the store is behind";
  EXPECT_EQ(summary.ops[2].running_ns, 550U);
}

TEST(TimelineSummary, HasALineForEachWorkerThatWorked) {
  const TimelineSummary summary = summarize(of_a_gpu());
  ASSERT_EQ(summary.lines.size(), 2U);
  EXPECT_TRUE(summary.lines[0].communicates);
  EXPECT_EQ(summary.lines[0].worker, 1);
  EXPECT_FALSE(summary.lines[1].communicates);
  const std::vector<WorkSpan>& spans = summary.lines[1].spans;
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin_ns, 200U);
  EXPECT_EQ(spans[0].end_ns, 500U);
  EXPECT_EQ(spans[1].begin_ns, 500U);
  EXPECT_EQ(spans[1].end_ns, 650U);
  EXPECT_DOUBLE_EQ(busy_share(summary, true), 0.2);
  EXPECT_DOUBLE_EQ(busy_share(summary, false), 0.45);
}

TEST(TimelineSummary, SharesAreOfAllWorkersOfAKind) {
  const TimelineSummary summary = summarize(
      std::vector{event("gate_up", "compute", 0, 0, 100, 0), event("gate_up", "compute", 1, 0, 50, 1)});
  EXPECT_DOUBLE_EQ(busy_share(summary, false), 0.75);
  EXPECT_DOUBLE_EQ(busy_share(summary, true), 0) << "there are none";
  EXPECT_EQ(summary.ops[0].tasks, 2);
  EXPECT_EQ(summary.ops[0].running_ns, 100U) << "two workers at once";
}

TEST(TimelineSummary, TheTableTellsRatesWhereBytesWereCounted) {
  const std::string table = cost_table(summarize(of_a_gpu()));
  EXPECT_NE(table.find("share"), std::string::npos);
  EXPECT_NE(table.find(" 2.5\n"), std::string::npos) << "1000 bytes in 400 ns\n" << table;
  EXPECT_NE(table.find("30.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find(" -\n"), std::string::npos) << table;
}

TEST(TimelineSummary, NothingIsEmpty) {
  const TimelineSummary summary = summarize({});
  EXPECT_EQ(summary.duration_ns, 0U);
  EXPECT_TRUE(summary.lines.empty());
  EXPECT_EQ(busy_share(summary, false), 0);
}

}  // namespace
}  // namespace mok::tool
