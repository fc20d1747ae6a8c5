// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_json.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mok::tool {

namespace {

using Json = nlohmann::ordered_json;

/// Events of one thread may not overlap: an actor that has two tasks in hand has two threads.
class Threads {
 public:
  /// The thread that is free for an event; events come in order of their begins.
  int thread_of(const TimelineEvent& event) {
    std::vector<Lane>& lanes = lanes_[{event.rank, event.worker, event.actor}];
    auto free = std::find_if(lanes.begin(), lanes.end(),
                             [&](const Lane& lane) { return lane.busy_until <= event.begin_ns; });
    if (free == lanes.end()) free = lanes.insert(lanes.end(), {next_++, 0});
    free->busy_until = event.end_ns;
    return free->thread;
  }

  /// A name for each thread and rank, and an order.
  [[nodiscard]] std::vector<Json> names() const {
    std::vector<Json> names;
    int place = 0;
    for (const auto& [key, lanes] : lanes_) {
      const auto& [rank, worker, actor] = key;
      names.push_back(metadata("process_name", rank, 0, "name", fmt::format("rank {}", rank)));
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        const std::string more = i == 0 ? "" : fmt::format(" ({})", i + 1);
        names.push_back(metadata("thread_name", rank, lanes[i].thread, "name",
                                 fmt::format("worker {} {}{}", worker, actor, more)));
        names.push_back(metadata("thread_sort_index", rank, lanes[i].thread, "sort_index", place++));
      }
    }
    return names;
  }

 private:
  struct Lane {
    int thread = 0;
    std::uint64_t busy_until = 0;
  };

  template <class Value>
  static Json metadata(const char* kind, int rank, int thread, const char* key, const Value& value) {
    return {{"ph", "M"}, {"name", kind}, {"pid", rank}, {"tid", thread}, {"args", {{key, value}}}};
  }

  int next_ = 1;
  std::map<std::tuple<int, int, std::string>, std::vector<Lane>> lanes_;
};

double microseconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

}  // namespace

void write_trace_events(std::ostream& stream, std::span<const TimelineEvent> events,
                        const std::map<std::string, std::string>& facts) {
  Threads threads;
  const std::uint64_t origin = events.empty() ? 0 : events.front().begin_ns;
  stream << "{\"displayTimeUnit\":\"ns\",\"otherData\":" << Json(facts).dump() << ",\"traceEvents\":[\n";
  for (const TimelineEvent& event : events) {
    const Json line = {{"name", event.op},
                       {"cat", event.actor},
                       {"ph", "X"},
                       {"ts", microseconds(event.begin_ns - origin)},
                       {"dur", microseconds(event.end_ns - event.begin_ns)},
                       {"pid", event.rank},
                       {"tid", threads.thread_of(event)},
                       {"args", {{"tile", event.tile}, {"col", event.col}, {"bytes", event.bytes}}}};
    stream << line.dump() << ",\n";
  }
  // Last, when all threads are known; JSON allows no comma behind the last line.
  const char* separator = "";
  for (const Json& name : threads.names()) {
    stream << separator << name.dump();
    separator = ",\n";
  }
  stream << "\n]}\n";
}

}  // namespace mok::tool
