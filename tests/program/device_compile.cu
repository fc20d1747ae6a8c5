// SPDX-License-Identifier: Apache-2.0
// Runs nowhere: that it compiles shows that the task program, schedule, order and decoding, is device code.
#include <cstddef>
#include <cstdint>

#include "program/layout.h"
#include "program/schedule.h"
#include "program/task.h"

namespace mok::program {

__global__ void build_schedule_kernel(Dims dims, std::byte* memory, std::int64_t num_tokens) {
  const auto layout = make_layout<ScheduleLayout>(dims);
  const RoutingInput input{layout.gathered.at(memory), num_tokens, layout.histogram.at(memory),
                           layout.expert_tile.at(memory)};
  build_schedule(dims, input, layout.tables(memory, dims));
}

__global__ void decode_task_kernel(Dims dims, std::byte* memory, Task* tasks, std::int64_t* totals) {
  const ScheduleTables tables = make_layout<ScheduleLayout>(dims).tables(memory, dims);
  std::int64_t next = 0;
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    for (const Role role : {Role::communication, Role::compute}) {
      const std::int64_t count = num_tasks(dims, tables, pass, role);
      for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        tasks[next + i] = decode_task(dims, tables, pass, role, i);
      }
      next += count;
    }
  }
  totals[0] = make_layout<SymmetricLayout>(dims).bytes + make_layout<LocalLayout>(dims).bytes +
              make_layout<ContextLayout>(dims).bytes;
  totals[1] = dims.max_steps() > 0 ? pushes_in_step(dims, tables, Pass::forward, 0) : 0;
  totals[2] = static_cast<std::int64_t>(watermark_value(1, totals[1]));
}

}  // namespace mok::program
