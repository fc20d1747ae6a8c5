// SPDX-License-Identifier: Apache-2.0
// Proves a pass of a group of ranks before anything runs: that it cannot deadlock, that nobody reads what is
// not yet written or overwrites what is still to be read, and that every element of every result is written
// exactly once.
//
// The verifier reads waits and signals from the tasks, but derives what a task reads and writes from the data
// flow alone. So a wait that the order forgets is found, whatever the timing of the workers would have been.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/dims.h"
#include "program/op.h"
#include "program/tables.h"
#include "program/task.h"

namespace mok::program {

/// The task at `index` of a rank's role; Task{} where there is none. Tests pass sources that plant faults.
using TaskSource = std::function<Task(std::int32_t rank, Role role, std::int64_t index)>;

/// Checks one pass over the tables of all ranks, in rank order. Each problem is a sentence that names rank,
/// role, task and counter; no problems = proven. A fault usually shows in several ways, so the list is cut
/// per kind. An empty `source` means decode_task.
std::vector<std::string> verify(const std::vector<Dims>& dims, const std::vector<ScheduleTables>& tables,
                                Pass pass, const TaskSource& source = {});

}  // namespace mok::program
