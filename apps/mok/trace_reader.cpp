// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "mok/trace.h"
#include "mok/trace_json.h"

namespace mok::tool {
namespace fs = std::filesystem;

namespace {

// Larger numbers are slips; below these no product of sizes overflows.
constexpr std::int64_t kMaxRanks = 1 << 12;
constexpr std::int64_t kMaxExperts = 1 << 20;
constexpr std::int64_t kMaxTokens = 1 << 26;
constexpr std::int64_t kMaxWidth = 1 << 26;

/// One line of a trace and where it stands.
class Line {
 public:
  Line(std::string name, std::int64_t number) : name_(std::move(name)), number_(number) {}

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw TraceError(fmt::format("Routing trace {}, line {}: {}.", name_, number_,
                                 fmt::format(format, std::forward<Args>(args)...)));
  }

  void parse(const std::string& text) {
    try {
      json_ = FloatJson::parse(text);
    } catch (const FloatJson::parse_error& error) {
      // NaN and Infinity are not JSON and show here; so does a line that a full disk cut off.
      fail("not JSON, or cut short at column {}", error.byte);
    } catch (const FloatJson::exception&) {
      fail("a number is too large to be finite");
    }
    if (!json_.is_object()) fail("a JSON object should stand here");
  }

  [[nodiscard]] const FloatJson& json() const { return json_; }

  /// The whole number that `object` has for `key`, within [low, high].
  [[nodiscard]] std::int64_t whole(const FloatJson& object, const char* key, std::int64_t low,
                                   std::int64_t high) const {
    const auto found = object.find(key);
    if (found == object.end()) fail("'{}' is missing", key);
    const bool fits = found->is_number_unsigned() ? found->get<std::uint64_t>() <= std::uint64_t{INT64_MAX}
                                                  : found->is_number_integer();
    if (!fits) fail("'{}' should be a whole number", key);
    const auto value = found->get<std::int64_t>();
    if (value < low || value > high) fail("'{}' is {} and should be {} to {}", key, value, low, high);
    return value;
  }

  /// The array of `size` elements that `object` has for `key`.
  [[nodiscard]] const FloatJson& array(const FloatJson& object, const char* key, std::int64_t size,
                                       std::string_view size_is) const {
    const auto found = object.find(key);
    if (found == object.end()) fail("'{}' is missing", key);
    if (!found->is_array()) fail("'{}' should be an array", key);
    if (std::cmp_not_equal(found->size(), size)) {
      fail("'{}' has {} elements and should have {} ({})", key, found->size(), size, size_is);
    }
    return *found;
  }

 private:
  std::string name_;
  std::int64_t number_;
  FloatJson json_;
};

TraceSizes read_header(const Line& line) {
  const FloatJson& json = line.json();
  const auto format = json.find("format");
  if (format == json.end() || *format != kTraceFormat) {
    line.fail("this is not a routing trace, whose first line has \"format\":\"{}\"", kTraceFormat);
  }
  const std::int64_t version = line.whole(json, "version", 1, INT32_MAX);
  if (version != kTraceVersion) {
    line.fail("the trace is of version {}, and this program reads version {}", version, kTraceVersion);
  }
  TraceSizes sizes;
  sizes.ranks = static_cast<int>(line.whole(json, "ranks", 1, kMaxRanks));
  sizes.experts = static_cast<int>(line.whole(json, "experts", 1, kMaxExperts));
  sizes.topk = static_cast<int>(line.whole(json, "topk", 1, sizes.experts));
  if (sizes.experts % sizes.ranks != 0) {
    line.fail("{} experts cannot be divided among {} ranks", sizes.experts, sizes.ranks);
  }
  if (json.contains("hidden")) sizes.hidden = line.whole(json, "hidden", 1, kMaxWidth);
  if (json.contains("intermediate")) sizes.intermediate = line.whole(json, "intermediate", 1, kMaxWidth);
  return sizes;
}

RankRouting read_rank(const Line& line, const FloatJson& json, std::size_t rank, const TraceSizes& sizes) {
  if (!json.is_object()) line.fail("rank {} should be a JSON object", rank);
  RankRouting routing;
  routing.tokens = line.whole(json, "tokens", 0, kMaxTokens);
  const std::int64_t routes = routing.tokens * sizes.topk;
  for (const FloatJson& id : line.array(json, "topk_experts", routes, "tokens * topk")) {
    // Unsigned ids beyond int64 are caught by the type of the comparison.
    const bool whole = id.is_number_integer();
    const bool in_range = id.is_number_unsigned() ? std::cmp_less(id.get<std::uint64_t>(), sizes.experts)
                                                  : whole && id.get<std::int64_t>() == -1;
    if (!in_range) {
      line.fail("rank {} routes token {} to expert {}, and ids are -1 (dropped) to {}", rank,
                routing.topk_experts.size() / static_cast<std::size_t>(sizes.topk), id.dump(),
                sizes.experts - 1);
    }
    routing.topk_experts.push_back(id.get<std::int32_t>());
  }
  for (const FloatJson& weight : line.array(json, "router_weights", routes, "tokens * topk")) {
    if (!weight.is_number() || !std::isfinite(weight.get<float>())) {
      line.fail("rank {} has a router weight of {} for token {}, and weights are finite numbers", rank,
                weight.dump(), routing.router_weights.size() / static_cast<std::size_t>(sizes.topk));
    }
    routing.router_weights.push_back(weight.get<float>());
  }
  return routing;
}

RoutingStep read_step(const Line& line, const RoutingTrace& before) {
  RoutingStep step;
  step.step = line.whole(line.json(), "step", 0, INT64_MAX);
  if (!before.steps.empty() && step.step <= before.steps.back().step) {
    line.fail("step {} follows step {}, and steps should ascend", step.step, before.steps.back().step);
  }
  for (const FloatJson& rank : line.array(line.json(), "ranks", before.sizes.ranks, "the header's ranks")) {
    step.ranks.push_back(read_rank(line, rank, step.ranks.size(), before.sizes));
  }
  return step;
}

}  // namespace

RoutingTrace read_trace(std::istream& stream, const std::string& name) {
  RoutingTrace trace;
  std::int64_t number = 0;
  bool finished = false;
  for (std::string text; std::getline(stream, text);) {
    Line line(name, ++number);
    if (finished) line.fail("something follows the closing line");
    line.parse(text);
    if (number == 1) {
      trace.sizes = read_header(line);
    } else if (line.json().contains("end")) {
      const std::int64_t steps = line.whole(line.json(), "steps", 0, INT64_MAX);
      if (std::cmp_not_equal(steps, trace.steps.size())) {
        line.fail("the closing line counts {} steps, and {} are there", steps, trace.steps.size());
      }
      finished = true;
    } else {
      trace.steps.push_back(read_step(line, trace));
    }
  }
  if (stream.bad()) throw TraceError(fmt::format("Routing trace {} cannot be read to its end.", name));
  if (number == 0) throw TraceError(fmt::format("Routing trace {} is empty.", name));
  if (!finished) Line(name, number).fail("the trace is cut short: no closing line follows");
  return trace;
}

RoutingTrace read_trace(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) throw TraceError(fmt::format("Routing trace {} does not exist.", path.string()));
  if (fs::is_directory(status)) {
    throw TraceError(fmt::format("Routing trace {} is a directory.", path.string()));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw TraceError(fmt::format("Routing trace {} cannot be opened.", path.string()));
  return read_trace(stream, path.string());
}

}  // namespace mok::tool
