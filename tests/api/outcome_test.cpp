// SPDX-License-Identifier: Apache-2.0
// A GPU's record of a failed wait becomes the sentence that the CPU backend would say.
#include "api/outcome.h"

#include <string>

#include <gtest/gtest.h>

#include "program/counters.h"
#include "program/layout.h"

namespace mok::testing {
namespace {

using program::Counter;
using program::Op;
using program::Role;

program::Dims small_dims() {
  Config config;
  config.minibatch_size = 128;
  return program::make_dims(config, {2, 300, 64, 2, {}}, {4, 64, 64}, 0, {});
}

/// A compute CTA that waited for something in pass 7.
cuda::FailureRecord record() {
  cuda::FailureRecord record;
  record.raised = 1;
  record.epoch = 7;
  record.rank = 1;
  record.cta = 17;
  record.role = static_cast<std::int32_t>(Role::compute);
  record.op = static_cast<std::int32_t>(Op::down);
  record.tile = 3;
  record.expected = 4;
  record.seen = 2;
  return record;
}

std::string sentence_of(const cuda::FailureRecord& record, double seconds = 30) {
  const Status status = api::deadline_status(record, small_dims(), seconds);
  EXPECT_EQ(status.kind, StatusKind::deadline_exceeded);
  return status.sentence();
}

const std::string kEnd =
    "the pass was abandoned on every rank and its outputs are NaN; call reset() to use the workspace again";

TEST(FailureOfAGpu, EveryCounterHasItsName) {
  const auto layout = program::CounterLayout::make(small_dims());
  for (int c = 0; c < static_cast<int>(Counter::count); ++c) {
    cuda::FailureRecord failed = record();
    failed.counter = layout.begin[c];
    const std::string name = program::name(static_cast<Counter>(c));
    EXPECT_EQ(sentence_of(failed), "rank 1, compute worker 17: down of tile 3 waited 30 s for " + name +
                                       " to reach 4 and saw 2 (pass 7); " + kEnd);
    failed.counter = layout.begin[c + 1] - 1;
    EXPECT_NE(sentence_of(failed).find("for " + name + " to reach"), std::string::npos);
  }
}

// A replayed graph may be of a layer that the host has forgotten.
TEST(FailureOfAGpu, CounterOfAnotherLayer) {
  cuda::FailureRecord failed = record();
  failed.counter = 1 << 20;
  EXPECT_NE(sentence_of(failed).find("for counter 1048576 to reach 4"), std::string::npos);
}

TEST(FailureOfAGpu, FlagsNameTheirPeer) {
  cuda::FailureRecord failed = record();
  failed.role = static_cast<std::int32_t>(Role::communication);
  failed.tile = -1;
  failed.peer = 0;
  failed.expected = 7;
  failed.seen = 6;
  failed.op = -1;
  EXPECT_EQ(
      sentence_of(failed, 600),
      "rank 1, communication worker 17: the start of the pass waited 600 s for ready flag of rank 0 to reach "
      "7 and saw 6 (pass 7); " +
          kEnd);
  failed.op = -2;
  EXPECT_NE(sentence_of(failed).find("the end of the pass waited 30 s for done flag of rank 0 to reach 7"),
            std::string::npos);
}

// Watermarks carry the pass in their upper bits; one that no step of this pass has raised yet is of an
// earlier one.
TEST(FailureOfAGpu, WatermarksCountStepsOfThePass) {
  cuda::FailureRecord failed = record();
  failed.op = static_cast<std::int32_t>(Op::weighted_sum);
  failed.peer = 1;
  failed.expected = program::watermark_value(7, 5);
  failed.seen = program::watermark_value(7, 2);
  EXPECT_NE(
      sentence_of(failed).find("weighted_sum of tile 3 waited 30 s for steps pushed by rank 1 to reach 5 and "
                               "saw 2 (pass 7)"),
      std::string::npos);
  failed.seen = program::watermark_value(6, 9);
  EXPECT_NE(sentence_of(failed).find("to reach 5 and saw 0 (pass 7)"), std::string::npos);
}

TEST(RoutingOutcome, OverflowNamesWhatWouldDo) {
  const program::Dims dims = small_dims();
  program::ScheduleHeader header;
  EXPECT_EQ(api::routing_status(header, dims, 3).kind, StatusKind::ok);
  header.refusal = program::Refusal::capacity_overflow;
  header.refusal_rank = 1;
  header.refusal_expert = 2;
  header.refusal_rows = dims.slots() + 1;
  const Status status = api::routing_status(header, dims, 3);
  EXPECT_EQ(status.kind, StatusKind::capacity_overflow);
  EXPECT_EQ(status.epoch, 3u);
  EXPECT_EQ(status.rank, 1);
  EXPECT_EQ(status.expert, 2);
  EXPECT_EQ(status.rows, dims.slots() + 1);
  EXPECT_EQ(status.capacity, dims.routed_capacity);
  EXPECT_EQ(status.multiplier, 1.0);
}

}  // namespace
}  // namespace mok::testing
