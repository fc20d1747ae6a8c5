// SPDX-License-Identifier: Apache-2.0
// Bad input to the binary: each gets one sentence on stderr and its exit status.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "run_tool.h"

namespace mok::tool {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

TEST(Cli, HelpAndVersion) {
  const ToolRun help = run_tool({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"train", "check", "trace", "doctor", "Exit status"}) {
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(help.err, "");
  const ToolRun version = run_tool({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("mok ")) << version.out;
  for (const char* command : {"train", "check", "trace", "doctor"}) {
    const ToolRun run = run_tool({command, "--help"});
    EXPECT_EQ(run.status, 0);
    EXPECT_NE(run.out.find("--hidden N ["), std::string::npos) << run.out;
  }
}

TEST(Cli, WrongCommandsAndOptions) {
  EXPECT_TRUE(failed_with(run_tool({}), kUsage, {"subcommand", "--help"}));
  EXPECT_TRUE(failed_with(run_tool({"trian"}), kUsage, {"ubcommand"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--stepz", "3"}), kUsage, {"--stepz"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--steps"}), kUsage, {"--steps"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--trace-steps", "3"}), kUsage, {"--trace-steps", "--trace"}));
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--routing", "x", "--tokens", "3"}), kUsage, {"--routing", "--tokens"}));
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--routing-step", "3"}), kUsage, {"--routing-step", "--routing"}));
}

TEST(Cli, NumbersOutOfRange) {
  for (const char* command : {"train", "check", "trace", "doctor"}) {
    for (const char* option : {"--tokens", "--hidden", "--intermediate", "--experts", "--topk", "--ranks"}) {
      for (const char* value :
           {"0", "-64", "1000000000000", "1e12", "99999999999999999999999", "64.5", "x", ""}) {
        EXPECT_TRUE(failed_with(run_tool({command, option, value}), kUsage, {option, value}))
            << command << " " << option << " " << value;
      }
    }
    EXPECT_TRUE(
        failed_with(run_tool({command, "--hidden", "100"}), kUsage, {"--hidden", "100", "multiple of 64"}));
    EXPECT_TRUE(failed_with(run_tool({command, "--intermediate", "65"}), kUsage,
                            {"--intermediate", "multiple of 64"}));
  }
  for (const char* value : {"0", "-1", "nan", "inf", "1e999", "x"}) {
    EXPECT_TRUE(failed_with(run_tool({"train", "--lr", value}), kUsage, {"--lr", value}));
    EXPECT_TRUE(failed_with(run_tool({"check", "--swiglu-limit", value}), kUsage, {"--swiglu-limit", value}));
  }
  EXPECT_TRUE(failed_with(run_tool({"train", "--steps", "0"}), kUsage, {"--steps", "from 1"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--workers", "-1"}), kUsage, {"--workers"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--seed", "-1"}), kUsage, {"--seed"}));
  EXPECT_TRUE(
      failed_with(run_tool({"train", "--trace", "t", "--trace-steps", "1,0"}), kUsage, {"--trace-steps"}));
  EXPECT_TRUE(failed_with(run_tool({"trace", "--repeats", "0"}), kUsage, {"--repeats", "from 1"}));
  EXPECT_TRUE(failed_with(run_tool({"trace", "--comm-sms", "257"}), kUsage, {"--comm-sms", "256"}));
  EXPECT_TRUE(failed_with(run_tool({"check", "--shared", "32"}), kUsage, {"--shared", "multiple of 64"}));
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--minibatch", "100"}), kUsage, {"--minibatch", "multiple of 128"}));
}

TEST(Cli, NumbersThatDoNotFitEachOther) {
  for (const char* command : {"train", "check", "trace", "doctor"}) {
    EXPECT_TRUE(failed_with(run_tool({command, "--experts", "8", "--topk", "9"}), kUsage,
                            {"--topk 9 is more than --experts 8"}));
    EXPECT_TRUE(failed_with(run_tool({command, "--experts", "8", "--topk", "2", "--ranks", "3"}), kUsage,
                            {"--ranks 3 does not divide --experts 8"}));
  }
  EXPECT_TRUE(failed_with(run_tool({"train", "--context", "5"}), kUsage,
                          {"--context 5 does not divide --hidden 256"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--steps", "5", "--trace", "t", "--trace-steps", "2,6"}), kUsage,
                          {"--trace-steps 6", "--steps 5"}));
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--minibatch", "256", "--macrobatch", "384"}), kUsage, {"384", "256"}));
}

TEST(Cli, SizesBeyondTheMemory) {
  for (const char* command : {"train", "check", "trace"}) {
    EXPECT_TRUE(
        failed_with(run_tool({command, "--experts", "16384", "--hidden", "65536", "--intermediate", "65536"}),
                    kUsage, {"of memory", "are free"}))
        << command;
  }
}

TEST(Cli, TextThatCannotBeUsed) {
  const Scratch scratch;
  const auto train_on = [](const std::string& text) {
    return run_tool({"train", "--steps", "1", "--text", text});
  };
  EXPECT_TRUE(failed_with(train_on("/nowhere/text"), kFailed, {"/nowhere/text", "does not exist"}));
  EXPECT_TRUE(failed_with(train_on("/usr"), kFailed, {"/usr", "is a directory"}));
  const std::string empty = scratch.file("empty", "");
  EXPECT_TRUE(failed_with(train_on(empty), kFailed, {empty, "is empty"}));
  const std::string nul = scratch.file("nul", std::string(100, '\0'));
  EXPECT_TRUE(failed_with(train_on(nul), kFailed, {nul, "is not text", "NUL"}));
  EXPECT_TRUE(failed_with(train_on(MOK_TOOL_PATH), kFailed, {MOK_TOOL_PATH, "is not text"}));
  const std::string noise = scratch.file("noise", std::string(100, '\x90'));
  EXPECT_TRUE(failed_with(train_on(noise), kFailed, {noise, "is not text", "UTF-8"}));
  const std::string brief = scratch.file("brief", "eight by");
  EXPECT_TRUE(failed_with(train_on(brief), kFailed, {brief, "too short"}));
  const std::string good = scratch.text("good", 1000);
  EXPECT_TRUE(failed_with(run_tool({"train", "--steps", "1", "--text", good, brief}), kFailed, {brief}));
}

TEST(Cli, TracesThatCannotBeUsed) {
  const Scratch scratch;
  const std::string header = R"({"format":"mok-routing-trace","version":1,"ranks":1,"experts":4,"topk":1})"
                             "\n";
  const std::string step = R"({"step":1,"ranks":[{"tokens":1,"topk_experts":[2],"router_weights":[1]}]})"
                           "\n";
  const std::string end = R"({"end":true,"steps":1})"
                          "\n";
  const auto check = [&](const std::string& content, const std::vector<std::string_view>& parts) {
    const std::string file = scratch.file("trace", content);
    std::vector<std::string_view> all = parts;
    all.emplace_back(file);
    return failed_with(run_tool({"check", "--routing", file}), kFailed, all);
  };
  EXPECT_EQ(run_tool({"check", "--routing", scratch.file("good", header + step + end)}).status, 0);
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--routing", "/nowhere/t"}), kFailed, {"/nowhere/t does not exist"}));
  EXPECT_TRUE(check("", {"is empty"}));
  EXPECT_TRUE(check(header + step, {"line 2", "cut short"}));
  EXPECT_TRUE(check(header + step.substr(0, 40), {"line 2", "cut short"}));
  EXPECT_TRUE(check(header +
                        R"({"step":1,"ranks":[{"tokens":1,"topk_experts":[2],"router_weights":[null]}]})"
                        "\n" +
                        end,
                    {"line 2", "null"}));
  EXPECT_TRUE(check(header +
                        R"({"step":1,"ranks":[{"tokens":1,"topk_experts":[2],"router_weights":[1e999]}]})"
                        "\n" +
                        end,
                    {"line 2", "too large"}));
  EXPECT_TRUE(check(header +
                        R"({"step":1,"ranks":[{"tokens":1,"topk_experts":[2],"router_weights":[NaN]}]})"
                        "\n" +
                        end,
                    {"line 2", "not JSON"}));
  EXPECT_TRUE(check(header +
                        R"({"step":1,"ranks":[{"tokens":2,"topk_experts":[2],"router_weights":[1]}]})"
                        "\n" +
                        end,
                    {"line 2", "has 1 elements and should have 2"}));
  EXPECT_TRUE(check(header + R"({"end":true,"steps":0})"
                             "\n",
                    {"no step"}));
  EXPECT_TRUE(
      failed_with(run_tool({"check", "--routing", scratch.path("good").string(), "--routing-step", "5"}),
                  kFailed, {"has no step 5"}));
}

TEST(Cli, AnEmptyFileNameIsNotAnOptionLeftOut) {
  EXPECT_TRUE(failed_with(run_tool({"train", "--trace", ""}), 2, {"--trace", "file name is empty"}));
  EXPECT_TRUE(failed_with(run_tool({"train", "--text", ""}), 2, {"--text", "file name is empty"}));
  EXPECT_TRUE(failed_with(run_tool({"check", "--routing", ""}), 2, {"--routing", "file name is empty"}));
}

TEST(Cli, ATraceThatCannotBeWrittenIsRefusedBeforeTraining) {
  const Scratch scratch;
  const std::string text = scratch.text("text", 1000);
  const auto trace_to = [&](const std::string& file) {
    return run_tool({"train", "--text", text, "--steps", "10000000", "--trace", file});
  };
  EXPECT_TRUE(
      failed_with(trace_to(scratch.path("no/trace").string()), kFailed, {"no/trace cannot be written"}));
  EXPECT_TRUE(failed_with(trace_to(scratch.path("").string()), kFailed, {"cannot be written"}));
  EXPECT_TRUE(failed_with(trace_to("/dev/null"), kFailed, {"/dev/null cannot be written"}));
  EXPECT_EQ(scratch.files(), 1U);
}

}  // namespace
}  // namespace mok::tool
