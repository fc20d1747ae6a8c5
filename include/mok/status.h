// SPDX-License-Identifier: Apache-2.0
// What a workspace knows about the last thing that went wrong.
#pragma once

#include <cstdint>
#include <string>

namespace mok {

enum class StatusKind : std::uint8_t {
  ok,
  capacity_overflow,       ///< a rank got more rows than its tables hold
  expert_id_out_of_range,  ///< an id outside [-1, E)
  deadline_exceeded        ///< a wait inside a pass gave up
};

/// Sticky until Workspace::reset() (deadline) or the next schedule (routing).
struct Status {
  StatusKind kind = StatusKind::ok;
  int rank = -1;            ///< the rank that overflowed, brought the id, or gave up waiting
  std::uint64_t epoch = 0;  ///< the pass, counted from 1
  // capacity_overflow
  int expert = -1;            ///< the rank's fullest expert (global id)
  std::int64_t rows = 0;      ///< routed rows of the rank
  std::int64_t capacity = 0;  ///< rows that it can hold
  double multiplier = 0;      ///< the schedule_capacity_multiplier that would do
  // expert_id_out_of_range
  std::int64_t token = -1;
  int choice = -1;  ///< k
  std::int64_t expert_id = 0;
  int num_experts = 0;
  // deadline_exceeded
  int worker = -1;         ///< thread of its role; on a GPU the CTA
  std::string role;        ///< "communication" or "compute"
  std::string op;          ///< e.g. "gate_up"
  std::int64_t tile = -1;  ///< -1 where it waited for a peer to begin or end the pass
  std::string counter;     ///< what it waited for
  std::uint64_t expected = 0;
  std::uint64_t seen = 0;
  double seconds = 0;  ///< the deadline

  /// The status as a sentence; "ok" when nothing is wrong.
  [[nodiscard]] std::string sentence() const;
};

}  // namespace mok
