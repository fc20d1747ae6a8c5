// SPDX-License-Identifier: Apache-2.0
// Faults planted in a pass, to see whether the verifier finds them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "program/counters.h"
#include "program/routing.h"
#include "program/task.h"
#include "program/verifier.h"

namespace mok::program {

/// Where a task stands.
struct TaskAt {
  std::int32_t rank = 0;
  Role role = Role::compute;
  std::int64_t index = 0;
  Task task;
};

inline std::vector<TaskAt> all_tasks(const Schedules& schedules, Pass pass) {
  std::vector<TaskAt> tasks;
  for (std::int32_t rank = 0; rank < schedules.shape.ranks; ++rank) {
    for (const Role role : {Role::communication, Role::compute}) {
      const std::int64_t count = num_tasks(schedules.dims[rank], schedules.tables[rank], pass, role);
      for (std::int64_t i = 0; i < count; ++i) {
        tasks.push_back(
            {rank, role, i, decode_task(schedules.dims[rank], schedules.tables[rank], pass, role, i)});
      }
    }
  }
  return tasks;
}

/// Problems when one task is another.
inline std::vector<std::string> verify_with(const Schedules& schedules, Pass pass, const TaskAt& changed) {
  return verify(schedules.dims, schedules.tables, pass,
                [&](std::int32_t rank, Role role, std::int64_t index) {
                  const bool here = rank == changed.rank && role == changed.role && index == changed.index;
                  return here ? changed.task
                              : decode_task(schedules.dims[rank], schedules.tables[rank], pass, role, index);
                });
}

inline bool mentions(const std::vector<std::string>& problems, const std::string& text) {
  return std::any_of(problems.begin(), problems.end(),
                     [&](const std::string& problem) { return problem.find(text) != std::string::npos; });
}

inline void remove_wait(Task& task, int wait) {
  for (int w = wait; w + 1 < task.num_waits; ++w) task.waits[w] = task.waits[w + 1];
  --task.num_waits;
}

inline Counter kind_of(const Schedules& schedules, std::int32_t rank, std::int64_t counter) {
  return CounterLayout::make(schedules.dims[rank]).kind_of(counter);
}

/// A group of two ranks on which every kind of wait is needed somewhere: four macrobatches of three row
/// tiles, where on each rank
///   expert 0 has tiles 0 to 3 and is carried over the first boundary,
///   expert 1 has tiles 4 and 5, expert 2 tile 6,
///   expert 3 has tiles 7 to 9 and is carried over the third boundary, through the first one's buffer.
/// The ring places that expert 3's segments take were not expert 0's, so only the waits on behalf of the
/// carry buffers order these. Expert 4 has no rows.
inline Schedules boundary_schedules(const TileShape& tile = kCpuTiles) {
  Shape shape;
  shape.ranks = 2;
  shape.topk = 1;
  shape.experts = 10;
  shape.max_tokens = 1280;
  shape.hidden = 192;
  shape.intermediate = 128;
  shape.shared = 64;
  shape.minibatch = 128;
  shape.macrobatch = 384;
  shape.tile = tile;
  Routing routing;
  routing.num_tokens = {1280, 1280 - 2 * 90};
  routing.ids.assign(2 * 1280, -1);
  std::vector<std::int32_t> ids;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    constexpr std::int64_t kTiles[] = {4, 2, 1, 3};
    for (std::int32_t e = 0; e < 4; ++e) ids.insert(ids.end(), kTiles[e] * kRowTile - 20, rank * 5 + e);
  }
  ids.resize(2 * 1280 - 2 * 90, -1);
  Random random(7);
  for (std::size_t i = ids.size() - 1; i > 0; --i) {
    std::swap(ids[i], ids[random.between(0, static_cast<std::int64_t>(i))]);
  }
  std::copy(ids.begin(), ids.end(), routing.ids.begin());
  return Schedules(shape, routing);
}

}  // namespace mok::program
