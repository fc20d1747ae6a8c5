// SPDX-License-Identifier: Apache-2.0
// Short runs of `mok trace`, and --device.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <mok/backend.h>

#include "run_tool.h"
#include "timeline_events.h"

namespace mok::tool {
namespace {

/// A forward of 2 ranks with 64 tokens each, on 4 experts: none gets more than one tile of 128 rows.
ToolRun small_trace(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"trace"};
  for (const char* argument : {"--ranks", "2", "--tokens", "64", "--hidden", "128", "--intermediate", "64",
                               "--experts", "4", "--topk", "2", "--repeats", "2"}) {
    arguments.emplace_back(argument);
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_tool(arguments);
}

bool has_gpu() {
  const std::vector<BackendInfo> all = backends();
  return std::any_of(all.begin(), all.end(),
                     [](const BackendInfo& info) { return info.name == "cuda" && info.available; });
}

TEST(TraceRun, WritesEveryTaskOnce) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.json").string();
  const ToolRun run = small_trace({"--device", "cpu", "--shared", "64", "--out", file});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(scratch.files(), 1U);
  const nlohmann::json trace = nlohmann::json::parse(read_file(file));
  std::map<std::string, int> tasks;
  std::set<std::tuple<int, std::string, int, int>> keys;
  double last = 0;
  for (const nlohmann::json& line : trace["traceEvents"]) {
    if (line["ph"] != "X") continue;
    ++tasks[line["name"]];
    EXPECT_TRUE(keys.emplace(line["pid"], line["name"], line["args"]["tile"], line["args"]["col"]).second)
        << line;
    EXPECT_GE(line["ts"].get<double>(), last) << line;
    EXPECT_GE(line["dur"].get<double>(), 0) << line;
    last = line["ts"];
  }
  EXPECT_GT(last, 0);
  EXPECT_EQ(tasks["dispatch_x"], 4);
  EXPECT_EQ(tasks["gate_up"], 4);
  EXPECT_EQ(tasks["down"], 4);
  EXPECT_EQ(tasks["shared_gate_up"], 2);
  EXPECT_EQ(tasks["shared_down"], 2);
  EXPECT_GE(tasks["weighted_sum"], 2);
}

TEST(TraceRun, DrawsAPictureAndPrintsCosts) {
  const Scratch scratch;
  const std::string file = scratch.path("timeline.svg").string();
  const ToolRun run = small_trace({"--device", "cpu", "--comm-sms", "2", "--picture", file});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string svg = read_file(file);
  EXPECT_EQ(problem_of_xml(svg), "");
  for (const char* words : {">gate_up<", "ranks 2, tokens 64 each, hidden 128", "on cpu", "rank 1 compute"}) {
    EXPECT_NE((svg + run.out).find(words), std::string::npos) << words;
  }
  for (const char* words : {"2 recorded", "worker time", "gate_up", "weighted_sum"}) {
    EXPECT_NE(run.out.find(words), std::string::npos) << words << "\n" << run.out;
  }
}

TEST(TraceRun, NeedsNoFiles) {
  const ToolRun run = small_trace({"--device", "cpu", "--warmups", "0", "--minibatch", "128"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("gate_up"), std::string::npos) << run.out;
}

TEST(TraceRun, RefusesFilesThatCannotBe) {
  const Scratch scratch;
  const std::string file = scratch.path("file").string();
  EXPECT_TRUE(failed_with(small_trace({"--out", file, "--picture", file}), 2, {"--out and --picture"}));
  EXPECT_TRUE(
      failed_with(small_trace({"--out", scratch.path("no/file").string()}), 1, {"cannot be written"}));
  EXPECT_TRUE(failed_with(small_trace({"--picture", ""}), 2, {"--picture", "file name is empty"}));
  EXPECT_EQ(scratch.files(), 0U);
}

TEST(DeviceOption, RefusesNamesOfNoDevice) {
  for (const char* command : {"trace", "check", "train"}) {
    for (const char* name : {"gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
      EXPECT_TRUE(failed_with(run_tool({command, "--device", name}), 2, {"--device", "should be cpu, cuda"}))
          << command << " " << name;
    }
  }
}

TEST(DeviceOption, SaysWhyThereIsNoGpu) {
  if (has_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const Scratch scratch;
  const std::string file = scratch.path("file").string();
  EXPECT_TRUE(failed_with(small_trace({"--device", "cuda", "--out", file}), 2, {"device is cuda:0", "cpu"}));
  EXPECT_EQ(scratch.files(), 0U);
  EXPECT_TRUE(failed_with(run_tool({"check", "--device", "cuda:0"}), 2, {"device is cuda:0", "cpu"}));
}

TEST(DeviceOption, ATrainingTakesBackward) {
  EXPECT_TRUE(failed_with(run_tool({"train", "--device", "cuda"}), 2,
                          {"--device is cuda", "backward", "CPU backend only so far"}));
}

}  // namespace
}  // namespace mok::tool
