// SPDX-License-Identifier: Apache-2.0
// The load warp: one thread that keeps the ring of stages filled by TMA.
#pragma once

#include <cstdint>

#include <cuda/ptx>

#include "cuda/pipeline/compute_storage.h"

namespace mok::cuda {

/// Steps of K of a GEMM task.
__device__ __forceinline__ int k_steps(const ops::RankView& view, const program::Task& task) {
  const bool is_gate_up = task.op == program::Op::gate_up || task.op == program::Op::shared_gate_up;
  const std::int64_t depth = is_gate_up                    ? view.dims.hidden
                             : program::is_shared(task.op) ? view.dims.shared_intermediate
                                                           : view.dims.intermediate;
  return static_cast<int>(depth / kTileK);
}

__device__ __forceinline__ bool is_sum(program::Op op) {
  return op == program::Op::weighted_sum || op == program::Op::grad_sum;
}

__device__ __forceinline__ void load_box(void* to, const CUtensorMap& map, std::int32_t k, std::int32_t row,
                                         Barrier& full) {
  const std::int32_t at[2] = {k, row};
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, to, &map, at,
                                    &full.word);
}

__device__ __forceinline__ void load_box(void* to, const CUtensorMap& map, std::int32_t k, std::int32_t row,
                                         std::int32_t expert, Barrier& full) {
  const std::int32_t at[3] = {k, row, expert};
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, to, &map, at,
                                    &full.word);
}

__device__ __forceinline__ void run_load_role(const LaunchParams& params, const RankPlan& plan,
                                              ComputeStorage& storage) {
  TaskAt at;
  RingCursor<kStages> stage;
  Cta& cta = storage.cta;
  for (;;) {
    storage.tasks.full[at.stage].wait(at.parity, cta.guard);
    const TaskRecord& record = storage.records[at.stage];
    if (record.is_last) return;
    const program::Task& task = record.task;
    if (!is_sum(task.op)) {
      const std::uint64_t begin = event_begin(params);
      // The task warp has acquired what other CTAs wrote by bulk stores: from here on TMA may read it.
      ::cuda::ptx::fence_proxy_async();
      const ExpertMaps& maps = program::is_shared(task.op) ? plan.shared : plan.routed;
      const bool is_gate_up = task.op == program::Op::gate_up || task.op == program::Op::shared_gate_up;
      const CUtensorMap& a = is_gate_up ? maps.x : maps.hidden;
      const auto row = static_cast<std::int32_t>(task.ring_row);
      const auto col = static_cast<std::int32_t>(task.col_begin);
      const std::int32_t expert = program::is_shared(task.op) ? 0 : task.expert;
      const int steps = k_steps(plan.view, task);
      for (int k = 0; k < steps; ++k) {
        Stage& to = storage.stages[stage.stage];
        Barrier& full = storage.full[stage.stage];
        storage.empty[stage.stage].wait(stage.parity ^ 1, cta.guard);
        full.arrive_expect(kStageBytes);
        load_box(to.a, a, k * kTileK, row, full);
        if (is_gate_up) {
          load_box(to.b, maps.gate, k * kTileK, col, expert, full);
          load_box(to.b + kBBytes / 2, maps.up, k * kTileK, col, expert, full);
        } else {
          load_box(to.b, maps.down, k * kTileK, col, expert, full);
        }
        stage.advance();
      }
      record_event(params, cta, Actor::load, task, begin, static_cast<std::int64_t>(steps) * kStageBytes);
    }
    storage.tasks.empty[at.stage].arrive();
    at.advance();
  }
}

}  // namespace mok::cuda
