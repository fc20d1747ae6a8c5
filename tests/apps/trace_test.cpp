// SPDX-License-Identifier: Apache-2.0
#include "mok/trace.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "run_tool.h"

namespace mok::tool {
namespace {

constexpr const char* kHeader = R"({"format":"mok-routing-trace","version":1,"ranks":2,"experts":4,"topk":2})"
                                "\n";
constexpr const char* kStep =
    R"({"step":1,"ranks":[{"tokens":1,"topk_experts":[0,3],"router_weights":[0.5,0.5]},)"
    R"({"tokens":0,"topk_experts":[],"router_weights":[]}]})"
    "\n";
constexpr const char* kEnd = R"({"end":true,"steps":1})"
                             "\n";

RoutingTrace parse(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream, "t.jsonl");
}

/// The sentence with which a trace is refused.
std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "accepted";
}

/// `text` with its first `what` replaced.
std::string with(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

std::string good() { return std::string(kHeader) + kStep + kEnd; }

void expect_refused(const std::string& text, const std::string& line, const std::string& what) {
  const std::string sentence = refusal(text);
  EXPECT_NE(sentence.find("Routing trace t.jsonl, line " + line + ":"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(what), std::string::npos) << sentence;
}

TEST(Trace, ReadsWhatTheFormatSays) {
  const RoutingTrace trace = parse(good());
  EXPECT_EQ(trace.sizes.ranks, 2);
  EXPECT_EQ(trace.sizes.experts, 4);
  EXPECT_EQ(trace.sizes.topk, 2);
  EXPECT_EQ(trace.sizes.hidden, 0);
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].step, 1);
  EXPECT_EQ(trace.steps[0].ranks[0].topk_experts, (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(trace.steps[0].ranks[1].tokens, 0);
}

TEST(Trace, RoundTripKeepsEveryBit) {
  const std::vector<float> weights = {
      0.1F, 1.0F / 3, 1e-45F, -0.0F, std::numeric_limits<float>::max(), 1.17549435e-38F};
  RoutingStep step;
  step.step = 7;
  step.ranks = {{3, {0, 1, -1, 3, 2, 2}, weights}, {0, {}, {}}};
  std::ostringstream out;
  TraceWriter writer(out, {.ranks = 2, .experts = 4, .topk = 2, .hidden = 256, .intermediate = 128});
  writer.add(step);
  step.step = 9;
  writer.add(step);
  writer.finish();

  const RoutingTrace trace = parse(out.str());
  EXPECT_EQ(trace.sizes.hidden, 256);
  EXPECT_EQ(trace.sizes.intermediate, 128);
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[1].step, 9);
  EXPECT_EQ(trace.steps[1].ranks[0].topk_experts, step.ranks[0].topk_experts);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(trace.steps[0].ranks[0].router_weights[i]),
              std::bit_cast<std::uint32_t>(weights[i]))
        << i;
  }
}

TEST(Trace, ATraceWithoutStepsIsOne) {
  EXPECT_TRUE(parse(std::string(kHeader) + R"({"end":true,"steps":0})").steps.empty());
}

TEST(Trace, RefusesWhatIsCutShort) {
  EXPECT_NE(refusal("").find("t.jsonl is empty"), std::string::npos);
  expect_refused(std::string(kHeader) + kStep, "2", "cut short");
  expect_refused(kHeader, "1", "cut short");
  // Whatever byte it ends at.
  const std::string whole = good();
  for (std::size_t length = 1; length + 1 < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "accepted") << length;
  }
}

TEST(Trace, RefusesAWrongHeader) {
  expect_refused("hello\n", "1", "not JSON");
  expect_refused("[1]\n", "1", "object");
  expect_refused(with(good(), "mok-routing-trace", "something else"), "1", "not a routing trace");
  expect_refused("{\"version\":1}\n", "1", "not a routing trace");
  expect_refused(with(good(), "\"version\":1", "\"version\":2"), "1", "version 2");
  expect_refused(with(good(), "\"version\":1", "\"version\":\"1\""), "1",
                 "'version' should be a whole number");
  expect_refused(with(good(), "\"ranks\":2", "\"ranks\":0"), "1", "'ranks' is 0");
  expect_refused(with(good(), "\"ranks\":2", "\"ranks\":3"), "1", "cannot be divided among 3");
  expect_refused(with(good(), "\"topk\":2", "\"topk\":5"), "1", "'topk' is 5");
  expect_refused(with(good(), "\"topk\":2", "\"topk\":-1"), "1", "'topk' is -1");
  expect_refused(with(good(), ",\"topk\":2", ""), "1", "'topk' is missing");
  expect_refused(with(good(), "\"experts\":4", "\"experts\":18446744073709551615"), "1", "'experts'");
  expect_refused(with(good(), "\"experts\":4", "\"experts\":4.5"), "1", "'experts' should be a whole number");
}

TEST(Trace, RefusesSizesThatDisagree) {
  expect_refused(with(good(), "\"tokens\":1", "\"tokens\":2"), "2",
                 "'topk_experts' has 2 elements and should have 4");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5]"), "2",
                 "'router_weights' has 1 elements and should have 2");
  expect_refused(
      with(good(), "\"ranks\":[{", "\"ranks\":[{\"tokens\":0,\"topk_experts\":[],\"router_weights\":[]},{"),
      "2", "'ranks' has 3 elements and should have 2");
  expect_refused(with(good(), "\"tokens\":1", "\"tokens\":-1"), "2", "'tokens' is -1");
  expect_refused(with(good(), "\"tokens\":1,", ""), "2", "'tokens' is missing");
  expect_refused(with(good(), "[0,3]", "{}"), "2", "'topk_experts' should be an array");
  expect_refused(with(good(), "{\"tokens\":0,\"topk_experts\":[],\"router_weights\":[]}", "7"), "2",
                 "rank 1 should be");
}

TEST(Trace, RefusesIdsOutOfRange) {
  for (const char* id : {"4", "-2", "1.5", "null", "\"1\"", "18446744073709551615", "4294967296"}) {
    expect_refused(with(good(), "[0,3]", std::string("[0,") + id + "]"), "2", std::string("to expert ") + id);
  }
}

TEST(Trace, RefusesWeightsThatAreNotFinite) {
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,null]"), "2", "weight of null for token 0");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,1e999]"), "2", "too large");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,1e39]"), "2", "too large");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,NaN]"), "2", "not JSON");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,Infinity]"), "2", "not JSON");
  expect_refused(with(good(), "[0.5,0.5]", "[0.5,\"0.5\"]"), "2", "weight of \"0.5\"");
}

TEST(Trace, RefusesAWrongOrderOfLines) {
  expect_refused(std::string(kHeader) + kStep + kStep + kEnd, "3", "step 1 follows step 1");
  expect_refused(good() + kStep, "4", "follows the closing line");
  expect_refused(with(good(), "\"steps\":1", "\"steps\":2"), "3", "counts 2 steps, and 1 are there");
  expect_refused(std::string(kHeader) + "\n" + kStep + kEnd, "2", "not JSON");
}

TEST(Trace, RefusesFilesThatCannotBeRead) {
  const Scratch scratch;
  const auto refuse = [](const std::filesystem::path& path) -> std::string {
    try {
      read_trace(path);
    } catch (const TraceError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refuse(scratch.path("none")).find("does not exist"), std::string::npos);
  EXPECT_NE(refuse(scratch.path("")).find("is a directory"), std::string::npos);
  const std::string file = scratch.file("trace.jsonl", with(good(), "[0,3]", "[0,9]"));
  EXPECT_NE(refuse(file).find(file + ", line 2:"), std::string::npos);
}

}  // namespace
}  // namespace mok::tool
