// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <fmt/format.h>

#include <mok/status.h>

namespace mok {

std::string Status::sentence() const {
  switch (kind) {
    case StatusKind::ok:
      return "ok";
    case StatusKind::capacity_overflow:
      return fmt::format(
          "rank {} got {} routed rows, more than the {} that its tables hold (its fullest expert is {}); "
          "nothing was computed and the outputs are NaN; a schedule_capacity_multiplier of {:.4g} would do",
          rank, rows, capacity, expert, multiplier);
    case StatusKind::expert_id_out_of_range: {
      // Schedules hold 32-bit ids; a wider one arrives as their lowest value.
      const bool narrowed = expert_id == std::numeric_limits<std::int32_t>::min();
      const char* const hint = narrowed ? " (or one beyond 32 bits)" : "";
      return fmt::format(
          "rank {} brought expert id {}{} for token {}, choice {}; ids must be -1 (dropped) or from 0 to {}; "
          "nothing was computed and the outputs are NaN",
          rank, expert_id, hint, token, choice, num_experts - 1);
    }
    case StatusKind::deadline_exceeded: {
      const std::string waiter = tile < 0 ? op : fmt::format("{} of tile {}", op, tile);
      return fmt::format(
          "rank {}, {} worker {}: {} waited {:g} s for {} to reach {} and saw {} (pass {}); the pass was "
          "abandoned on every rank and its outputs are NaN; call reset() to use the workspace again",
          rank, role, worker, waiter, seconds, counter, expected, seen, epoch);
    }
  }
  return "unknown status";
}

}  // namespace mok
