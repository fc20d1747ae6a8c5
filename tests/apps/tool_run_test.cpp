// SPDX-License-Identifier: Apache-2.0
// Short runs of `mok train`, `mok check` and `mok doctor`.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mok/trace.h"
#include "run_tool.h"

namespace mok::tool {
namespace {

/// A small training: 3 steps of 64 tokens on 4 ranks.
std::vector<std::string> small_train(const std::string& text, const std::vector<std::string>& more,
                                     const std::string& ranks = "4", const std::string& tokens = "16") {
  std::vector<std::string> arguments = {"train", "--text", text};
  for (const char* argument :
       {"--hidden", "64", "--intermediate", "64", "--experts", "8", "--topk", "2", "--context", "4"}) {
    arguments.emplace_back(argument);
  }
  arguments.insert(arguments.end(), {"--ranks", ranks, "--tokens", tokens});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The lines of `text` that have `what`.
std::string lines_with(const std::string& text, const std::string& what) {
  std::istringstream stream(text);
  std::string found;
  for (std::string line; std::getline(stream, line);) {
    if (line.find(what) != std::string::npos) found += line + '\n';
  }
  return found;
}

TEST(TrainRun, TheSameSeedPrintsTheSameWhateverTheWorkers) {
  const Scratch scratch;
  const std::string text = scratch.text("text", 2000);
  const ToolRun first = run_tool(small_train(text, {"--steps", "3", "--quiet"}));
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("bigram entropy"), std::string::npos);
  EXPECT_EQ(run_tool(small_train(text, {"--steps", "3", "--quiet"})).out, first.out);
  EXPECT_EQ(run_tool(small_train(text, {"--steps", "3", "--quiet", "--workers", "1"})).out, first.out);
  EXPECT_EQ(run_tool(small_train(text, {"--steps", "3", "--quiet", "--workers", "3"})).out, first.out);
  EXPECT_NE(run_tool(small_train(text, {"--steps", "3", "--quiet", "--seed", "2"})).out, first.out);
}

TEST(TrainRun, TheSameTokensOnOtherRanksGiveTheSameBits) {
  const Scratch scratch;
  const std::string text = scratch.text("text", 2000);
  const std::string four = lines_with(run_tool(small_train(text, {"--steps", "3", "--quiet"})).out, "model");
  EXPECT_NE(four, "");
  EXPECT_EQ(lines_with(run_tool(small_train(text, {"--steps", "3", "--quiet"}, "1", "64")).out, "model"),
            four);
  EXPECT_EQ(lines_with(run_tool(small_train(text, {"--steps", "3", "--quiet"}, "8", "8")).out, "model"),
            four);
}

TEST(TrainRun, PrintsProgressAndResult) {
  const Scratch scratch;
  const ToolRun run = run_tool(small_train(scratch.text("text", 2000), {"--steps", "3"}));
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* words : {"4 virtual, 16 tokens and 2 experts each", "tokens/s", "this model",
                            "unigram entropy", "expert 7", "got a non-zero gradient", "of memory."}) {
    EXPECT_NE(run.out.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(run.out.find('\r'), std::string::npos) << "refreshed lines are for terminals";
}

TEST(TrainRun, WritesATraceThatCheckReplays) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.jsonl").string();
  const ToolRun run = run_tool(small_train(
      scratch.text("text", 2000), {"--steps", "3", "--quiet", "--trace", file, "--trace-steps", "1,3"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(scratch.files(), 2U) << "the text and the trace";
  const RoutingTrace trace = read_trace(file);
  EXPECT_EQ(trace.sizes.ranks, 4);
  EXPECT_EQ(trace.sizes.experts, 8);
  EXPECT_EQ(trace.sizes.topk, 2);
  EXPECT_EQ(trace.sizes.hidden, 64);
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].step, 1);
  EXPECT_EQ(trace.steps[1].step, 3);
  for (const RoutingStep& step : trace.steps) {
    for (const RankRouting& rank : step.ranks) {
      ASSERT_EQ(rank.tokens, 16);
      for (std::size_t t = 0; t < 16; ++t) {
        EXPECT_NE(rank.topk_experts[2 * t], rank.topk_experts[2 * t + 1]);
        EXPECT_NEAR(rank.router_weights[2 * t] + rank.router_weights[2 * t + 1], 1, 1e-6);
      }
    }
  }
  const ToolRun check = run_tool({"check", "--routing", file, "--routing-step", "1", "--hidden", "64"});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_NE(check.out.find("ranks 4, tokens 16+16+16+16"), std::string::npos) << check.out;
}

TEST(TrainRun, TracesATenthOfTheStepsByDefault) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.jsonl").string();
  EXPECT_EQ(
      run_tool(small_train(scratch.text("text", 2000), {"--steps", "3", "--quiet", "--trace", file})).status,
      0);
  EXPECT_EQ(read_trace(file).steps.size(), 3U);
  EXPECT_EQ(run_tool(small_train(scratch.text("text", 2000),
                                 {"--steps", "3", "--quiet", "--trace", file, "--trace-every", "2"}))
                .status,
            0);
  EXPECT_EQ(read_trace(file).steps.size(), 1U);
}

TEST(TrainRun, ATrainingThatDivergesFailsWithoutATrace) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.jsonl").string();
  const ToolRun run =
      run_tool(small_train(scratch.text("text", 2000), {"--steps", "2000", "--lr", "10", "--trace", file}));
  EXPECT_TRUE(failed_with(run, 1, {"loss"}));
  EXPECT_EQ(scratch.files(), 1U) << "the text alone";
}

TEST(TrainRun, AnInterruptLeavesNoFile) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.jsonl").string();
  const ToolRun run = run_tool(
      small_train(scratch.text("text", 2000), {"--steps", "10000000", "--trace", file, "--trace-every", "1"}),
      "timeout --preserve-status --signal=INT 1");
  EXPECT_TRUE(failed_with(run, 130, {"Interrupted"}));
  EXPECT_EQ(scratch.files(), 1U) << "the text alone";
}

/// A terminal that closes.
TEST(TrainRun, AHangUpLeavesNoFile) {
  const Scratch scratch;
  const std::string text = scratch.text("text", 2000);
  const ToolRun run =
      run_tool({"train", "--text", text, "--steps", "10000000", "--trace", scratch.path("trace").string()},
               "timeout --preserve-status --signal=HUP 1");
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_EQ(scratch.files(), 1U);
}

TEST(TrainRun, StopsWhenNobodyCanReadItsOutput) {
  const Scratch scratch;
  const ToolRun run = run_tool({"train", "--text", scratch.text("text", 2000), "--steps", "10000000"},
                               R"(timeout 60 sh -c 'exec "$0" "$@" >/dev/full')");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("The output could not be written."), std::string::npos) << run.err;
}

TEST(CheckRun, PassesItsOwnBounds) {
  const ToolRun run =
      run_tool({"check", "--tokens", "70", "--hidden", "128", "--intermediate", "64", "--experts", "6",
                "--topk", "3", "--ranks", "3", "--shared", "64", "--swiglu-limit", "0.8"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* tensor : {"out", "d_x", "d_router_weights", "d_gate", "d_down", "d_shared_up"}) {
    EXPECT_NE(lines_with(run.out, tensor).find("pass"), std::string::npos) << run.out;
  }
  EXPECT_EQ(run.out.find("FAIL"), std::string::npos);
}

TEST(CheckRun, BatchSizesAndStagingDoNotChangeTheDistances) {
  const std::vector<std::string> plain = {"check", "--tokens",       "300", "--hidden",
                                          "64",    "--intermediate", "64"};
  std::vector<std::string> cut = plain;
  cut.insert(cut.end(), {"--minibatch", "128", "--macrobatch", "256"});
  std::vector<std::string> staged = plain;
  staged.emplace_back("--staged");
  const std::string distances = lines_with(run_tool(plain).out, "pass");
  EXPECT_NE(distances, "");
  EXPECT_EQ(lines_with(run_tool(cut).out, "pass"), distances);
  EXPECT_EQ(lines_with(run_tool(staged).out, "pass"), distances);
}

TEST(DoctorRun, ShowsMachineBackendsAndMemory) {
  const ToolRun run = run_tool({"doctor", "--tokens", "256", "--hidden", "128", "--intermediate", "64",
                                "--experts", "8", "--topk", "2", "--ranks", "4", "--shared", "64"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* words : {"AVX2", "memory", "gpu", "cpu      yes", "cuda     no", "bytes per rank",
                            "each schedule", "one layer with one schedule and one context"}) {
    EXPECT_NE(run.out.find(words), std::string::npos) << words;
  }
}

/// Runs doctor where nvidia-smi is this script.
ToolRun doctor_with(const std::string& nvidia_smi) {
  const Scratch scratch;
  const std::string script = scratch.file("nvidia-smi", "#!/bin/sh\n" + nvidia_smi);
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  return run_tool({"doctor"}, "env PATH=" + scratch.path("").string() + ":/usr/bin:/bin");
}

TEST(DoctorRun, ListsTheCardsThatNvidiaSmiSees) {
  const ToolRun run =
      doctor_with("echo 'A card, 81559 MiB, 9.0, 580.1'; echo 'Another card, 1 MiB, 9.0, 580.1'");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("gpu      A card, 81559 MiB, 9.0, 580.1\n"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("gpu      Another card, 1 MiB"), std::string::npos) << run.out;
}

TEST(DoctorRun, TakesNoFailureOfNvidiaSmiForACard) {
  const ToolRun run = doctor_with("echo 'NVIDIA-SMI has failed'; exit 9");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out.find("NVIDIA-SMI has failed"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace mok::tool
