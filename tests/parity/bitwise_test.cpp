// SPDX-License-Identifier: Apache-2.0
// R5: no tunable, no timing and no way of running the layer changes a bit of any result.
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"

namespace mok::testing {
namespace {

/// Ranks 0 and 2 get several row tiles, rank 1 brings no token; expert 0's rows span more than one macrobatch
/// of 128.
const reference::Problem& problem() {
  static const reference::Problem made = reference::random_problem(mixed_problem(
      small_tests() ? std::vector<std::int64_t>{60, 0, 130, 31} : std::vector<std::int64_t>{130, 0, 257, 61},
      2));
  return made;
}

/// As little at a time as can be: one worker of a kind, one op after the other, everything in one macrobatch.
const LayerRun& baseline(bool main_grad) {
  const auto run = [](bool f32) {
    RunOptions options;
    options.staged = true;
    options.main_grad = f32;
    return run_layer(problem(), options);
  };
  static const LayerRun fresh = run(false);
  static const LayerRun accumulated = run(true);
  return main_grad ? accumulated : fresh;
}

struct Variant {
  std::string name;
  RunOptions run;
};

std::ostream& operator<<(std::ostream& out, const Variant& v) { return out << v.name; }

Variant make(std::string name, const std::function<void(RunOptions&)>& change) {
  Variant variant{std::move(name), {}};
  change(variant.run);
  return variant;
}

void set_batches(RunOptions& run, std::int64_t minibatch, std::int64_t macrobatch) {
  run.config.minibatch_size = minibatch;
  run.config.macrobatch_size = macrobatch;
}

class Bitwise : public ::testing::TestWithParam<Variant> {};

TEST_P(Bitwise, ChangesNoBit) {
  const RunOptions& run = GetParam().run;
  EXPECT_EQ("", differences(run_layer(problem(), run), baseline(run.main_grad), true));
}

std::string name_of(const ::testing::TestParamInfo<Variant>& info) { return info.param.name; }

/// Every number of workers of both kinds, on a program with many small steps and ring reuse.
std::vector<Variant> workers() {
  std::vector<Variant> variants;
  for (int compute = 1; compute <= 4; ++compute) {
    for (int communication = 1; communication <= 3; ++communication) {
      const std::string name = fmt::format("Compute{}Communication{}", compute, communication);
      variants.push_back(make(name, [&](RunOptions& run) {
        set_batches(run, 128, 256);
        run.config.cpu.num_compute_workers = compute;
        run.config.fwd_num_comm_sms = communication;
        run.config.bwd_num_comm_sms = 4 - communication;
      }));
    }
  }
  return variants;
}
INSTANTIATE_TEST_SUITE_P(NumberOfWorkers, Bitwise, ::testing::ValuesIn(workers()), name_of);

/// One minibatch per macrobatch, a few, and all rows in one; fused and staged; fresh gradients and main_grad.
std::vector<Variant> batches() {
  constexpr std::int64_t kBatches[][2] = {{128, 128},  {128, 256},    {128, 384},     {256, 256},
                                          {256, 512},  {256, 1024},   {1024, 1024},   {1024, 2048},
                                          {128, 1024}, {128, 131072}, {1024, 131072}, {131072, 131072}};
  std::vector<Variant> variants;
  for (const auto& [minibatch, macrobatch] : kBatches) {
    const std::string name = fmt::format("Minibatch{}Macrobatch{}", minibatch, macrobatch);
    const auto add = [&, mini = minibatch, macro = macrobatch](const char* suffix, bool staged,
                                                               bool main_grad) {
      variants.push_back(make(name + suffix, [&](RunOptions& run) {
        set_batches(run, mini, macro);
        run.staged = staged;
        run.main_grad = main_grad;
      }));
    };
    add("", false, false);
    add("Staged", true, false);
    add("MainGrad", false, true);
  }
  return variants;
}
INSTANTIATE_TEST_SUITE_P(BatchSizes, Bitwise, ::testing::ValuesIn(batches()), name_of);

std::vector<Variant> timings() {
  std::vector<Variant> variants;
  for (int seed = 1; seed <= 6; ++seed) {
    variants.push_back(make(fmt::format("Seed{}", seed), [&](RunOptions& run) {
      set_batches(run, 128, seed % 2 == 0 ? 128 : 384);
      run.config.cpu.timing_seed = static_cast<std::uint64_t>(seed);
      run.config.cpu.num_compute_workers = 1 + seed % 3;
      run.recompute = seed % 3 == 0;
    }));
  }
  return variants;
}
INSTANTIATE_TEST_SUITE_P(ShuffledTiming, Bitwise, ::testing::ValuesIn(timings()), name_of);

INSTANTIATE_TEST_SUITE_P(
    WaysToRun, Bitwise,
    ::testing::Values(make("Fused", [](RunOptions&) {}),
                      make("RecomputedContext", [](RunOptions& run) { run.recompute = true; }),
                      make("RecomputedContextOfSeveralMacrobatches",
                           [](RunOptions& run) {
                             run.recompute = true;
                             set_batches(run, 128, 256);
                           }),
                      make("RecomputedContextStaged",
                           [](RunOptions& run) {
                             run.recompute = true;
                             run.staged = true;
                             set_batches(run, 128, 128);
                           }),
                      make("BackwardTwiceFromOneContext", [](RunOptions& run) { run.backward_runs = 2; }),
                      make("BackwardTwiceFromOneContextOfSeveralMacrobatches",
                           [](RunOptions& run) {
                             run.backward_runs = 2;
                             set_batches(run, 128, 256);
                           }),
                      make("BackwardTwiceFromARecomputedContext",
                           [](RunOptions& run) {
                             run.recompute = true;
                             run.backward_runs = 2;
                             set_batches(run, 256, 256);
                           })),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    TheCallersMemory, Bitwise,
    ::testing::Values(
        make("CapacityForAnyRouting", [](RunOptions& run) { run.config.schedule_capacity_multiplier = 1.0; }),
        make("CapacityOfThreeRanks", [](RunOptions& run) { run.config.schedule_capacity_multiplier = 0.75; }),
        make("GatherChunks", [](RunOptions& run) { run.config.all_gather_top_experts_chunk_bytes = 16; }),
        make("Int64Ids", [](RunOptions& run) { run.int64_ids = true; }),
        make("MoreMaxTokensThanTokens", [](RunOptions& run) { run.extra_tokens = 77; }),
        make("MoreMaxTokensThanTokensInSeveralMacrobatches",
             [](RunOptions& run) {
               run.extra_tokens = 1000;
               set_batches(run, 128, 256);
             }),
        make("GapBetweenExperts", [](RunOptions& run) { run.expert_gap = 128 * 192; }),
        make("OddGapBetweenExpertsMainGrad",
             [](RunOptions& run) {
               run.expert_gap = 37;
               run.main_grad = true;
             })),
    name_of);

}  // namespace
}  // namespace mok::testing
