// SPDX-License-Identifier: Apache-2.0
#include "mok/trace.h"
#include "mok/trace_json.h"

namespace mok::tool {

TraceWriter::TraceWriter(std::ostream& stream, const TraceSizes& sizes) : stream_(stream) {
  // nlohmann::ordered_json keeps the order of the keys, so that the format's name comes first in the file.
  nlohmann::ordered_json header = {{"format", kTraceFormat},
                                   {"version", kTraceVersion},
                                   {"ranks", sizes.ranks},
                                   {"experts", sizes.experts},
                                   {"topk", sizes.topk}};
  if (sizes.hidden != 0) header["hidden"] = sizes.hidden;
  if (sizes.intermediate != 0) header["intermediate"] = sizes.intermediate;
  stream_ << header.dump() << '\n';
}

void TraceWriter::add(const RoutingStep& step) {
  FloatJson line = {{"step", step.step}, {"ranks", FloatJson::array()}};
  for (const RankRouting& rank : step.ranks) {
    line["ranks"].push_back(FloatJson{{"tokens", rank.tokens},
                                      {"topk_experts", rank.topk_experts},
                                      {"router_weights", rank.router_weights}});
  }
  stream_ << line.dump() << '\n';
  ++steps_;
}

void TraceWriter::finish() { stream_ << FloatJson{{"end", true}, {"steps", steps_}}.dump() << '\n'; }

}  // namespace mok::tool
