// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_picture.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "timeline_events.h"

namespace mok::tool {
namespace {

/// The path of the op with this colour.
std::string path_of(const std::string& svg, const std::string& colour) {
  const std::size_t end = svg.find("\" stroke=\"" + colour);
  if (end == std::string::npos) return "";
  const std::size_t begin = svg.rfind("d=\"", end) + 3;
  return svg.substr(begin, end - begin);
}

constexpr const char* kGateUp = "#1f78c8";
constexpr const char* kDown = "#12996b";

// The time axis has 2400 dots.
TEST(TimelinePicture, DrawsWorkWhereItWas) {
  const std::string svg = timeline_picture(summarize(std::vector{event("gate_up", "compute", 0, 0, 6000),
                                                                 event("down", "compute", 0, 12000, 24000)}),
                                           "title", "device");
  EXPECT_EQ(problem_of_xml(svg), "");
  EXPECT_EQ(path_of(svg, kGateUp), "M0 107h600");
  EXPECT_EQ(path_of(svg, kDown), "M1200 107h1200");
  for (const char* words : {">gate_up<", ">down<", ">title<", "device: 24.0 us", "busy 75.0 %",
                            "microseconds", "rank 0 compute (1)"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words << "\n" << svg;
  }
}

TEST(TimelinePicture, JoinsWhatIsCloserThanADotAndKeepsWhatIsShorter) {
  // A dot is 10 ns.
  const std::string svg = timeline_picture(
      summarize(std::vector{
          event("gate_up", "compute", 0, 0, 100, 0), event("gate_up", "compute", 0, 104, 200, 1),
          event("gate_up", "compute", 0, 220, 300, 2), event("down", "compute", 0, 23990, 23991, 0),
          event("gate_up", "compute", 0, 23998, 24000, 3)}),
      "", "");
  EXPECT_EQ(path_of(svg, kGateUp), "M0 107h20m2 0h8m2369 0h1");
  EXPECT_EQ(path_of(svg, kDown), "") << "a dot shows what has most of it: " << path_of(svg, kDown);
  EXPECT_EQ(problem_of_xml(svg), "");
}

TEST(TimelinePicture, StaysSmallForAWholeGpu) {
  std::vector<TimelineEvent> events;
  for (int sm = 0; sm < 132; ++sm) {
    std::uint64_t begin = 0;
    for (std::uint64_t task = 0; begin < 24000; ++task) {
      const std::uint64_t end = begin + 7 + (task * task + static_cast<std::uint64_t>(sm)) % 11;
      events.push_back(event(task % 2 == 1 ? "gate_up" : "down", "consumer0", sm, begin, end));
      begin = end;
    }
  }
  std::sort(events.begin(), events.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  const TimelineSummary summary = summarize(events);
  const std::string svg = timeline_picture(summary, "", "");
  EXPECT_LE(svg.size(), kPictureBytes);
  EXPECT_GT(svg.size(), kPictureBytes / 4) << "more detail would have had room";
  EXPECT_EQ(problem_of_xml(svg), "");
  EXPECT_GT(timeline_picture(summary, "", "", 10'000'000).size(), kPictureBytes)
      << "the limit was not tested";
}

TEST(TimelinePicture, EscapesTextAndTakesUnknownOpsAndEmptyPasses) {
  const std::string svg =
      timeline_picture(summarize(std::vector{event("new_op", "compute", 0, 0, 10)}), "a < b & \"c\"", "<d>");
  EXPECT_EQ(problem_of_xml(svg), "");
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find(">new_op<"), std::string::npos);
  EXPECT_EQ(problem_of_xml(timeline_picture({}, "", "")), "");
}

TEST(TimelinePicture, TheCheckOfXmlFindsFaults) {
  EXPECT_EQ(problem_of_xml("<a><b c=\"d\"/>text</a>"), "");
  for (const char* wrong : {"", "<a>", "<a></b>", "<a", "<a b=\"></a>", "<a/><b></b>", "<a><b</a>"}) {
    EXPECT_NE(problem_of_xml(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace mok::tool
