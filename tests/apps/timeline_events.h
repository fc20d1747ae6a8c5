// SPDX-License-Identifier: Apache-2.0
// Made-up timelines, and a look at the XML that is drawn from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mok/timeline.h>

namespace mok::tool {

/// A task of rank 0.
inline TimelineEvent event(const char* op, const char* actor, int worker, std::uint64_t begin_ns,
                           std::uint64_t end_ns, std::int64_t tile = 0) {
  TimelineEvent result;
  result.op = op;
  result.actor = actor;
  result.worker = worker;
  result.begin_ns = begin_ns;
  result.end_ns = end_ns;
  result.tile = tile;
  return result;
}

inline std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

/// What is wrong with a document of elements, attributes and text; empty when it is well-formed.
inline std::string problem_of_xml(std::string_view text) {
  std::vector<std::string> open;
  std::size_t elements = 0;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) return "a tag has no end";
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end;
    if (tag.find('<') != std::string_view::npos) return "a tag stands within a tag";
    if (count_of(tag, "\"") % 2 != 0) return "an attribute has no end: " + std::string(tag);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (tag.starts_with('/')) {
      if (open.empty() || "/" + open.back() != tag) return "does not close the last tag: " + std::string(tag);
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      if (open.empty() && elements > 0) return "a second root: " + std::string(tag);
      open.push_back(name);
    }
    ++elements;
  }
  if (elements == 0) return "there is no element";
  return open.empty() ? "" : "is not closed: " + open.back();
}

}  // namespace mok::tool
