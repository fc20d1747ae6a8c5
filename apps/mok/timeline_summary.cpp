// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "mok/human.h"

namespace mok::tool {

namespace {

/// Whether a worker is taken to be busy while this actor is. A GPU's loads run ahead of the products and its
/// stores behind them: they would hide that nobody multiplies.
bool is_work(const TimelineEvent& event) {
  const std::string_view actor = event.actor;
  return actor == "compute" || actor == "dispatch" || actor.starts_with("consumer");
}

/// Appends a span to those of a line, whose begins ascend; what overlaps the one before begins where that
/// ends.
void append(std::vector<WorkSpan>& spans, WorkSpan span) {
  if (!spans.empty()) {
    WorkSpan& last = spans.back();
    if (last.op == span.op && span.begin_ns <= last.end_ns) {
      last.end_ns = std::max(last.end_ns, span.end_ns);
      return;
    }
    span.begin_ns = std::max(span.begin_ns, last.end_ns);
  }
  if (span.begin_ns <= span.end_ns) spans.push_back(span);
}

/// Adds up how long an op runs, from events whose begins ascend.
class RunningTime {
 public:
  /// Nanoseconds that [begin, end] adds to the events before.
  std::uint64_t add(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t from = std::max(begin, covered_);
    covered_ = std::max(covered_, end);
    return covered_ > from ? covered_ - from : 0;
  }

 private:
  std::uint64_t covered_ = 0;
};

class Summarizer {
 public:
  void add(const TimelineEvent& event, std::uint64_t origin) {
    const std::size_t op = index_of(event.op);
    OpCost& cost = costs_[op];
    const WorkSpan span{event.begin_ns - origin, event.end_ns - origin, op};
    if (tasks_[op].emplace(event.rank, event.tile, event.col).second) ++cost.tasks;
    cost.running_ns += running_[op].add(span.begin_ns, span.end_ns);
    cost.bytes += event.bytes;
    if (!is_work(event)) return;
    const bool communicates = std::string_view(event.actor) == "dispatch";
    cost.communicates = communicates;
    append(lines_[{event.rank, !communicates, event.worker}], span);
  }

  TimelineSummary finish() {
    TimelineSummary summary;
    for (auto& [key, spans] : lines_) {
      const auto [rank, computes, worker] = key;
      for (const WorkSpan& span : spans) costs_[span.op].worker_ns += span.end_ns - span.begin_ns;
      summary.lines.push_back({rank, !computes, worker, std::move(spans)});
    }
    summary.ops = std::move(costs_);
    return summary;
  }

 private:
  std::size_t index_of(std::string_view name) {
    const auto found =
        std::find_if(costs_.begin(), costs_.end(), [&](const OpCost& cost) { return cost.name == name; });
    if (found != costs_.end()) return static_cast<std::size_t>(found - costs_.begin());
    costs_.emplace_back().name = name;
    tasks_.emplace_back();
    running_.emplace_back();
    return costs_.size() - 1;
  }

  std::vector<OpCost> costs_;
  std::vector<std::set<std::tuple<int, std::int64_t, std::int64_t>>> tasks_;
  std::vector<RunningTime> running_;
  std::map<std::tuple<int, bool, int>, std::vector<WorkSpan>> lines_;  ///< by rank, computes, worker
};

/// `part` of the time that all workers of a kind had.
double share_of(const TimelineSummary& summary, bool communicates, std::uint64_t part_ns) {
  const auto workers = std::count_if(summary.lines.begin(), summary.lines.end(), [&](const WorkerLine& line) {
    return line.communicates == communicates;
  });
  const double whole = static_cast<double>(workers) * static_cast<double>(summary.duration_ns);
  return whole > 0 ? static_cast<double>(part_ns) / whole : 0;
}

}  // namespace

TimelineSummary summarize(std::span<const TimelineEvent> events) {
  if (events.empty()) return {};
  const std::uint64_t origin = events.front().begin_ns;
  std::uint64_t end = origin;
  Summarizer all;
  for (const TimelineEvent& event : events) {
    all.add(event, origin);
    end = std::max(end, event.end_ns);
  }
  TimelineSummary summary = all.finish();
  summary.begin_ns = origin;
  summary.duration_ns = end - origin;
  return summary;
}

double busy_share(const TimelineSummary& summary, bool communicates) {
  std::uint64_t busy = 0;
  for (const OpCost& op : summary.ops) {
    if (op.communicates == communicates) busy += op.worker_ns;
  }
  return share_of(summary, communicates, busy);
}

std::string cost_table(const TimelineSummary& summary) {
  constexpr const char* kRow = "  {:<18}{:>10}{:>18}{:>10}{:>12}{:>10}\n";
  std::string table = fmt::format(kRow, "op", "tasks", "worker time", "share", "moved", "GB/s");
  for (const OpCost& op : summary.ops) {
    const auto bytes = static_cast<double>(op.bytes);
    const bool counted = op.bytes > 0 && op.running_ns > 0;
    // Bytes in a nanosecond are gigabytes in a second.
    const std::string rate =
        counted ? fmt::format("{:.1f}", bytes / static_cast<double>(op.running_ns)) : "-";
    table += fmt::format(kRow, op.name, grouped(op.tasks),
                         fmt::format("{:.1f} us", static_cast<double>(op.worker_ns) / 1e3),
                         fmt::format("{:.1f} %", 100 * share_of(summary, op.communicates, op.worker_ns)),
                         counted ? human_bytes(bytes) : "-", rate);
  }
  return table;
}

}  // namespace mok::tool
