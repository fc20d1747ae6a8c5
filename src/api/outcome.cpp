// SPDX-License-Identifier: Apache-2.0
#include "api/outcome.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <mok/error.h>

#include "program/counters.h"
#include "program/layout.h"

namespace mok::api {
namespace {

// FailureRecord::op of waits that no task does.
constexpr std::int32_t kStartOfPass = -1;
constexpr std::int32_t kEndOfPass = -2;

std::string op_of(const cuda::FailureRecord& record) {
  if (record.op == kStartOfPass) return "the start of the pass";
  if (record.op == kEndOfPass) return "the end of the pass";
  return program::name(static_cast<program::Op>(record.op));
}

std::string counter_of(const cuda::FailureRecord& record, const program::Dims& dims) {
  const auto counters = program::CounterLayout::make(dims);
  if (record.counter >= 0 && record.counter < counters.size()) {
    return program::name(counters.kind_of(record.counter));
  }
  if (record.counter >= 0) return fmt::format("counter {}", record.counter);
  if (record.op == kStartOfPass) return fmt::format("ready flag of rank {}", record.peer);
  if (record.op == kEndOfPass) return fmt::format("done flag of rank {}", record.peer);
  return fmt::format("steps pushed by rank {}", record.peer);
}

}  // namespace

Status routing_status(const program::ScheduleHeader& header, const program::Dims& dims, std::uint64_t epoch) {
  Status status;
  status.rank = header.refusal_rank;
  status.epoch = epoch;
  if (header.refusal == program::Refusal::capacity_overflow) {
    status.kind = StatusKind::capacity_overflow;
    status.expert = header.refusal_expert;
    status.rows = header.refusal_rows;
    status.capacity = dims.routed_capacity;
    const std::int64_t factor = program::ceil_div(header.refusal_rows, dims.slots());
    status.multiplier = static_cast<double>(factor) / dims.ranks;
  }
  if (header.refusal == program::Refusal::expert_id_out_of_range) {
    status.kind = StatusKind::expert_id_out_of_range;
    status.token = header.refusal_token;
    status.choice = header.refusal_choice;
    status.expert_id = header.refusal_expert;
    status.num_experts = dims.experts;
  }
  return status;
}

Status deadline_status(const cpu::WaitFailure& failure, std::uint64_t epoch) {
  Status status;
  status.kind = StatusKind::deadline_exceeded;
  status.rank = failure.rank;
  status.epoch = epoch;
  status.worker = failure.worker;
  status.role = failure.role;
  status.op = failure.op;
  status.tile = failure.tile;
  status.counter = failure.counter;
  status.expected = failure.expected;
  status.seen = failure.seen;
  status.seconds = failure.seconds;
  return status;
}

Status deadline_status(const cuda::FailureRecord& record, const program::Dims& dims, double seconds) {
  Status status;
  status.kind = StatusKind::deadline_exceeded;
  status.rank = record.rank;
  status.epoch = record.epoch;
  status.worker = record.cta;
  status.role = program::name(static_cast<program::Role>(record.role));
  status.op = op_of(record);
  status.tile = record.tile;
  status.counter = counter_of(record, dims);
  // Watermarks hold the epoch in their upper bits: told are steps of this pass.
  const bool is_watermark = record.counter < 0 && record.op >= 0;
  const std::uint64_t origin = is_watermark ? program::watermark_value(record.epoch, 0) : 0;
  status.expected = record.expected - origin;
  status.seen = std::max(record.seen, origin) - origin;
  status.seconds = seconds;
  return status;
}

void throw_unusable(const Status& status) {
  throw DeadlineExceeded("an earlier pass on this workspace failed and reset() was not called: " +
                         status.sentence());
}

}  // namespace mok::api
