// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_json.h"

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "timeline_events.h"

namespace mok::tool {
namespace {

nlohmann::json written(const std::vector<TimelineEvent>& events) {
  std::ostringstream stream;
  write_trace_events(stream, events, {{"layer", "a \"quoted\" title"}});
  return nlohmann::json::parse(stream.str());
}

TEST(TimelineJson, AnEventIsAsItWas) {
  TimelineEvent only = event("gate_up", "consumer1", 7, 5'000'001'500, 5'000'004'000, 3);
  only.rank = 2;
  only.col = 128;
  only.bytes = 4096;
  const nlohmann::json file = written({event("down", "store", 0, 5'000'000'000, 5'000'000'000), only});
  EXPECT_EQ(file["otherData"]["layer"], "a \"quoted\" title");
  const nlohmann::json& second = file["traceEvents"][1];
  EXPECT_EQ(second["ph"], "X");
  EXPECT_EQ(second["name"], "gate_up");
  EXPECT_EQ(second["cat"], "consumer1");
  EXPECT_EQ(second["pid"], 2);
  EXPECT_EQ(second["ts"], 1.5);
  EXPECT_EQ(second["dur"], 2.5);
  EXPECT_EQ(second["args"], (nlohmann::json{{"tile", 3}, {"col", 128}, {"bytes", 4096}}));
  std::set<std::string> names;
  for (const nlohmann::json& line : file["traceEvents"]) {
    if (line["ph"] == "M" && line["pid"] == 2 && line["args"].contains("name"))
      names.insert(line["args"]["name"]);
  }
  EXPECT_EQ(names, (std::set<std::string>{"rank 2", "worker 7 consumer1"}));
}

// A thread whose events overlap is shown wrongly.
TEST(TimelineJson, OverlappingTasksOfAnActorHaveThreadsOfTheirOwn) {
  const nlohmann::json file =
      written({event("dispatch_x", "dispatch", 0, 0, 20, 0), event("dispatch_x", "dispatch", 0, 10, 30, 1),
               event("dispatch_x", "dispatch", 0, 20, 40, 2), event("dispatch_x", "dispatch", 1, 25, 40, 3)});
  const nlohmann::json& lines = file["traceEvents"];
  EXPECT_NE(lines[0]["tid"], lines[1]["tid"]);
  EXPECT_EQ(lines[0]["tid"], lines[2]["tid"]) << "it was free again";
  EXPECT_NE(lines[3]["tid"], lines[0]["tid"]) << "another worker";
  EXPECT_NE(lines[3]["tid"], lines[1]["tid"]);
}

TEST(TimelineJson, NoEventsAreAFileToo) { EXPECT_TRUE(written({})["traceEvents"].empty()); }

}  // namespace
}  // namespace mok::tool
