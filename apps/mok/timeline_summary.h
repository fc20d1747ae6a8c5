// SPDX-License-Identifier: Apache-2.0
// A recorded pass, put in order: which worker ran which op when, and what each op cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mok/timeline.h>

namespace mok::tool {

/// A time in which a worker was in one op, counted from the pass's begin.
struct WorkSpan {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::size_t op = 0;  ///< index into TimelineSummary::ops
};

/// An SM that works for a rank; on the CPU a thread.
struct WorkerLine {
  int rank = 0;
  bool communicates = false;  ///< it dispatches; else it computes
  int worker = 0;
  std::vector<WorkSpan> spans;  ///< in order, without overlap
};

struct OpCost {
  std::string name;
  bool communicates = false;  ///< as the workers that run it
  std::int64_t tasks = 0;
  std::uint64_t worker_ns = 0;   ///< summed over the workers
  std::uint64_t running_ns = 0;  ///< while any worker was in it
  std::int64_t bytes = 0;        ///< of global memory, reads and writes; 0 = not counted
};

/// Of the workers that had a task at all.
struct TimelineSummary {
  std::uint64_t begin_ns = 0;  ///< of the first event, on the device's clock
  std::uint64_t duration_ns = 0;
  std::vector<OpCost> ops;        ///< in the order of their first tasks
  std::vector<WorkerLine> lines;  ///< by rank; those that communicate come first
};

/// \param events of one pass, sorted by begin.
TimelineSummary summarize(std::span<const TimelineEvent> events);

/// The part of their time that workers spent in tasks, 0 to 1: of those that communicate or of those that
/// compute.
double busy_share(const TimelineSummary& summary, bool communicates);

/// A line per op: its tasks, the workers' time in it, the share that this is of the time of all workers of
/// its kind, bytes moved, and their rate while the op was running.
std::string cost_table(const TimelineSummary& summary);

}  // namespace mok::tool
