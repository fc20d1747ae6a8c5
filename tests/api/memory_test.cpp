// SPDX-License-Identifier: Apache-2.0
// R4: the bytes are stated before anything is allocated, and they are those that are allocated.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"
#include "api/state.h"

namespace mok::testing {
namespace {

struct Sizes {
  Config config;
  WorkspaceOptions options{2, 300, 64, 2, {}};
  LayerShape layer{4, 128, 192};

  Sizes() {
    config.minibatch_size = 128;
    config.macrobatch_size = 512;
  }
  [[nodiscard]] MemoryReport report() const { return nbytes_for(config, options, layer); }
};

std::int64_t sum_of(const std::vector<BufferBytes>& buffers) {
  constexpr std::int64_t kAlignment = 256;
  std::int64_t sum = 0;
  for (const BufferBytes& buffer : buffers) sum += (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
  return sum;
}

std::int64_t bytes_of(const std::vector<BufferBytes>& buffers, const std::string& name) {
  const auto found =
      std::find_if(buffers.begin(), buffers.end(), [&](const BufferBytes& b) { return b.name == name; });
  return found == buffers.end() ? 0 : found->bytes;
}

void expect_same(const MemoryReport& a, const MemoryReport& b) {
  EXPECT_EQ(a.symmetric_bytes, b.symmetric_bytes);
  EXPECT_EQ(a.local_bytes, b.local_bytes);
  EXPECT_EQ(a.schedule_bytes, b.schedule_bytes);
  EXPECT_EQ(a.context_bytes, b.context_bytes);
}

TEST(Bytes, AreThoseThatAreAllocated) {
  Sizes sizes;
  reference::ProblemOptions options;
  options.intermediate = sizes.layer.intermediate_size;
  options.shared_intermediate = sizes.layer.shared_intermediate_size;
  options.tokens_per_rank = {300, 11};
  const reference::Problem problem = reference::random_problem(options);
  RunOptions run;
  run.config = sizes.config;
  LayerHarness harness(problem, run);
  const MemoryReport stated = sizes.report();
  const std::int64_t ranks = sizes.options.ranks;

  Workspace workspace(sizes.config, harness.workspace_options());
  EXPECT_EQ(workspace.nbytes(), ranks * stated.symmetric_bytes);
  workspace.reserve(sizes.layer);
  EXPECT_EQ(workspace.nbytes(), ranks * (stated.symmetric_bytes + stated.local_bytes));
  workspace.reserve(sizes.layer);
  EXPECT_EQ(workspace.nbytes(), ranks * (stated.symmetric_bytes + stated.local_bytes)) << "reserved twice";

  const Schedule schedule = harness.schedule(workspace);
  EXPECT_EQ(schedule.state().memory.bytes(), ranks * stated.schedule_bytes);
  const ForwardContext context = harness.forward(workspace, schedule);
  EXPECT_EQ(context.nbytes(), ranks * stated.context_bytes);
  harness.backward(workspace, schedule, context);
  EXPECT_EQ(harness.recompute(workspace, schedule).nbytes(), ranks * stated.context_bytes);
  EXPECT_EQ(workspace.nbytes(), ranks * (stated.symmetric_bytes + stated.local_bytes)) << "passes allocated";

  LayerShape second = sizes.layer;
  second.intermediate_size = 64;
  workspace.reserve(second);
  EXPECT_EQ(workspace.nbytes(), ranks * (stated.symmetric_bytes + stated.local_bytes +
                                         nbytes_for(sizes.config, sizes.options, second).local_bytes));
}

TEST(Bytes, FirstPassAllocatesWhatReserveWould) {
  Refusals layer;
  const MemoryReport stated = nbytes_for({}, layer.workspace().options(), {4, 128, 192});
  EXPECT_EQ(layer.workspace().nbytes(), 2 * (stated.symmetric_bytes + stated.local_bytes));
}

TEST(Bytes, NamedBuffersSumUp) {
  for (const std::int64_t shared : {0, 192}) {
    for (const std::int64_t macrobatch : {128, 512, 131072}) {
      Sizes sizes;
      sizes.layer.shared_intermediate_size = shared;
      sizes.config.macrobatch_size = macrobatch;
      const MemoryReport report = sizes.report();
      EXPECT_EQ(sum_of(report.symmetric), report.symmetric_bytes);
      EXPECT_EQ(sum_of(report.local), report.local_bytes);
      EXPECT_EQ(sum_of(report.schedule), report.schedule_bytes);
      EXPECT_EQ(sum_of(report.context), report.context_bytes);
      for (const auto* buffers : {&report.symmetric, &report.local, &report.schedule, &report.context}) {
        for (const BufferBytes& buffer : *buffers) {
          EXPECT_GT(buffer.bytes, 0) << buffer.name;
          EXPECT_FALSE(buffer.name.empty());
        }
      }
    }
  }
}

TEST(Bytes, SizesOfTheLargeBuffers) {
  const Sizes
      sizes;  // capacity: 600 slots * min(2, 2) = 1200 rows, 10 tiles and 2 of padding; the ring has 4
  const MemoryReport report = sizes.report();
  EXPECT_EQ(bytes_of(report.symmetric, "x [Tmax,H]"), 300 * 64 * 2);
  EXPECT_EQ(bytes_of(report.symmetric, "slots [Tmax*K,H]"), 600 * 64 * 2);
  EXPECT_EQ(bytes_of(report.local, "hidden rows [ring,I]"), 512 * 128 * 2);
  EXPECT_EQ(bytes_of(report.local, "carried weight gradients [2,3,I*H]"), 6 * 128 * 64 * 4);
  EXPECT_EQ(bytes_of(report.local, "shared hidden [Tmax,Is]"), 300 * 192 * 2);
  EXPECT_EQ(bytes_of(report.schedule, "source rank [capacity]"), 12 * 128 * 4);
  EXPECT_EQ(bytes_of(report.context, "x rows [min(macrobatch,capacity),H]"), 512 * 64 * 2);
  EXPECT_EQ(bytes_of(report.context, "gate rows [min(macrobatch,capacity),I]"), 512 * 128 * 2);
}

TEST(Bytes, TunablesThatHoldNothing) {
  Sizes sizes;
  const MemoryReport before = sizes.report();
  sizes.config.fwd_num_comm_sms = 7;
  sizes.config.bwd_num_comm_sms = 9;
  sizes.config.all_gather_top_experts_chunk_bytes = 4096;
  sizes.config.swiglu_limit = 7.0f;
  sizes.config.arrival_deadline_seconds = 1;
  sizes.config.progress_deadline_seconds = 1;
  sizes.config.cpu = {12, 34};
  expect_same(before, sizes.report());
}

// One allocation of symmetric memory serves layers of any kind.
TEST(Bytes, SymmetricMemoryKnowsNothingOfTheLayer) {
  Sizes sizes;
  const std::int64_t before = sizes.report().symmetric_bytes;
  sizes.layer = {64, 1024, 0};
  sizes.config.minibatch_size = 1024;
  sizes.config.macrobatch_size = 8192;
  sizes.config.schedule_capacity_multiplier = 1;
  EXPECT_EQ(sizes.report().symmetric_bytes, before);
}

// Under imbalance a rank gets more rows, and recomputes: a context is bounded by the macrobatch.
TEST(Bytes, ContextIsBoundedByTheMacrobatch) {
  Sizes sizes;
  sizes.layer.shared_intermediate_size = 0;
  const MemoryReport before = sizes.report();
  sizes.config.schedule_capacity_multiplier = 1;
  sizes.options.ranks = 4;
  sizes.options.max_tokens *= 8;
  EXPECT_EQ(sizes.report().context_bytes, before.context_bytes);
  EXPECT_EQ(bytes_of(sizes.report().local, "hidden rows [ring,I]"),
            bytes_of(before.local, "hidden rows [ring,I]"));
  sizes.config.macrobatch_size *= 2;
  EXPECT_EQ(sizes.report().context_bytes, 2 * before.context_bytes);
}

TEST(Bytes, ContextIsNeverLargerThanTheCapacity) {
  Sizes sizes;
  sizes.config.macrobatch_size = 2048;
  const MemoryReport before = sizes.report();
  EXPECT_EQ(bytes_of(before.context, "x rows [min(macrobatch,capacity),H]"), 12 * 128 * 64 * 2);
  EXPECT_EQ(bytes_of(before.local, "replayed x rows [ring,H]"), 0);
  sizes.config.macrobatch_size = 131072;
  EXPECT_EQ(sizes.report().context_bytes, before.context_bytes);
}

// Room for any imbalance (a multiplier of 1) costs tables alone: 8 bytes a row and a little per tile.
TEST(Bytes, CapacityCostsTwelveBytesARow) {
  Sizes sizes;
  sizes.options = {8, 4096, 64, 4, {}};
  sizes.layer.num_experts = 32;
  sizes.config.minibatch_size = 4096;
  sizes.config.macrobatch_size = 32768;
  const MemoryReport half = sizes.report();
  sizes.config.schedule_capacity_multiplier = 1;
  const MemoryReport full = sizes.report();
  const std::int64_t more_rows = 4 * 4096 * 4;
  EXPECT_EQ(half.symmetric_bytes, full.symmetric_bytes);
  EXPECT_EQ(half.context_bytes, full.context_bytes);
  const std::int64_t more = full.schedule_bytes + full.local_bytes - half.schedule_bytes - half.local_bytes;
  EXPECT_GT(more, 8 * more_rows);
  EXPECT_LE(more, 12 * more_rows);
}

TEST(Bytes, GrowWithTheShape) {
  const MemoryReport before = Sizes().report();
  Sizes wide;
  wide.layer.intermediate_size *= 2;
  EXPECT_GT(wide.report().local_bytes, before.local_bytes);
  EXPECT_GT(wide.report().context_bytes, before.context_bytes);
  EXPECT_EQ(wide.report().schedule_bytes, before.schedule_bytes);
  Sizes shared;
  shared.layer.shared_intermediate_size *= 2;
  EXPECT_GT(shared.report().local_bytes, before.local_bytes);
  EXPECT_GT(shared.report().context_bytes, before.context_bytes);
  Sizes deep;
  deep.options.hidden_size *= 2;
  EXPECT_GT(deep.report().symmetric_bytes, before.symmetric_bytes);
  EXPECT_GT(deep.report().context_bytes, before.context_bytes);
  Sizes crowded;
  crowded.options.max_tokens *= 2;
  EXPECT_GT(crowded.report().symmetric_bytes, before.symmetric_bytes);
  EXPECT_GT(crowded.report().schedule_bytes, before.schedule_bytes);
}

// The largest of everything that is accepted: no product may leave 64 bits.
TEST(Bytes, LargestSizesDoNotOverflow) {
  Sizes sizes;
  sizes.options = {1024, 2047, 1 << 20, 1024, {}};
  sizes.layer = {1 << 16, 1 << 20, 1 << 20};
  sizes.config.minibatch_size = 128;
  sizes.config.macrobatch_size = (std::int64_t{1} << 31) - 128;
  sizes.config.schedule_capacity_multiplier = 1;
  const MemoryReport many = sizes.report();
  EXPECT_EQ(bytes_of(many.symmetric, "slots [Tmax*K,H]"), std::int64_t{2047} * 1024 * (1 << 20) * 2);
  sizes.options = {1, (std::int64_t{1} << 31) - 1, 1 << 20, 1, {}};
  const MemoryReport one = sizes.report();
  EXPECT_EQ(bytes_of(one.symmetric, "x [Tmax,H]"), ((std::int64_t{1} << 31) - 1) * (1 << 20) * 2);
  for (const MemoryReport& report : {many, one}) {
    EXPECT_EQ(sum_of(report.symmetric), report.symmetric_bytes);
    EXPECT_EQ(sum_of(report.local), report.local_bytes);
    EXPECT_EQ(sum_of(report.schedule), report.schedule_bytes);
    EXPECT_EQ(sum_of(report.context), report.context_bytes);
  }
}

TEST(Bytes, MoreThanTheMachineHasIsASentence) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator ends the process where the system's returns null";
#else
  const WorkspaceOptions options{1, (std::int64_t{1} << 31) - 1, 1 << 20, 1, {}};
  const std::int64_t bytes = nbytes_for({}, options, {1, 64, 0}).symmetric_bytes;
  const auto sentence_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(sentence_of([&] { const Workspace workspace({}, options); }),
            "cannot allocate " + std::to_string(bytes) +
                " bytes for the symmetric memory of a rank: this machine has not that much memory; lower "
                "max_tokens, or, for local memory and contexts, macrobatch_size");

  // Symmetric memory of a few GB that nobody touches, and 100 TB for the shared expert.
  Workspace workspace({}, {1, 1 << 24, 64, 1, {}});
  const std::string sentence = sentence_of([&] { workspace.reserve({1, 64, 1 << 20}); });
  EXPECT_EQ(sentence.find("cannot allocate "), 0u) << sentence;
  EXPECT_NE(sentence.find("the local memory of a rank"), std::string::npos) << sentence;
  EXPECT_NO_THROW(workspace.reserve({1, 64, 0})) << "the failure left something behind";
#endif
}

}  // namespace
}  // namespace mok::testing
