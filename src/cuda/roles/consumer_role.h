// SPDX-License-Identifier: Apache-2.0
// A consumer: one warpgroup that multiplies its 64 rows of each tile and hands the results on. The two
// consumers of a CTA never wait for each other: one leads, so that its epilogue runs beside the other's K
// loop.
#pragma once

#include <cstdint>

#include "cuda/mma/mainloop.h"
#include "cuda/pipeline/chunk_writer.h"
#include "cuda/pipeline/compute_storage.h"
#include "cuda/roles/load_role.h"
#include "ops/down/down.cuh"
#include "ops/gate_up/gate_up.cuh"
#include "ops/slot_sum/slot_sum.cuh"

namespace mok::cuda {

/// Uses the accumulators so that the compiler keeps the products whose results nobody stores.
__device__ __forceinline__ void keep(const float (&acc)[kAccumulators], const RankPlan& plan) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) sum += acc[i];
  if (sum == 1.2345e30f) *plan.view.out = {};
}

__device__ __forceinline__ void run_consumer_role(const LaunchParams& params, const RankPlan& plan,
                                                  ComputeStorage& storage, int consumer) {
  const ops::RankView& view = plan.view;
  Cta& cta = storage.cta;
  const Actor actor = consumer == 0 ? Actor::consumer0 : Actor::consumer1;
  TaskAt at;
  RingCursor<kStages> stage;
  ChunkWriter writer{storage, consumer};
  float acc[kAccumulators];
  for (;;) {
    storage.tasks.full[at.stage].wait(at.parity, cta.guard);
    const TaskRecord& record = storage.records[at.stage];
    if (record.is_last) return;
    const program::Task& task = record.task;
    const std::uint64_t begin = event_begin(params);
    if (is_sum(task.op)) {
      ops::weighted_sum(view, task, consumer, kConsumers);
    } else {
      const int real_rows = static_cast<int>(task.row_count) - consumer * kConsumerRows;
      run_mainloop(acc, storage, stage, k_steps(view, task), consumer, real_rows > 0);
      if (params.multiply_only) {
        keep(acc, plan);
      } else if (task.op == program::Op::gate_up || task.op == program::Op::shared_gate_up) {
        ops::gate_up_epilogue(acc, writer, real_rows, view.pass == program::Pass::forward, view.limit);
      } else {
        ops::down_epilogue(acc, writer, static_cast<int>((task.col_count + kChunkCols - 1) / kChunkCols));
      }
    }
    if (threadIdx.x % kWarpgroup == 0) record_event(params, cta, actor, task, begin, 0);
    __syncwarp();
    if (threadIdx.x % kWarp == 0) storage.tasks.empty[at.stage].arrive();
    at.advance();
  }
}

}  // namespace mok::cuda
