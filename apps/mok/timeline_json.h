// SPDX-License-Identifier: Apache-2.0
// A recorded pass as trace events, which Perfetto and chrome://tracing show.
#pragma once

#include <map>
#include <ostream>
#include <span>
#include <string>

#include <mok/timeline.h>

namespace mok::tool {

/// Writes one event a line: a process for each rank, and a thread for each worker and actor; an actor that
/// begins a task before it has ended the one before has more than one. Times are microseconds from the first
/// event. \param events sorted by begin. \param facts what else a reader of the file should know.
void write_trace_events(std::ostream& stream, std::span<const TimelineEvent> events,
                        const std::map<std::string, std::string>& facts);

}  // namespace mok::tool
