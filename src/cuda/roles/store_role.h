// SPDX-License-Identifier: Apache-2.0
// A store warp: takes one consumer's chunks from shared memory to where their readers want them, row by row
// as bulk copies, and publishes the task once they have arrived.
#pragma once

#include <cstdint>

#include <cuda/ptx>

#include "cuda/pipeline/compute_storage.h"
#include "cuda/roles/load_role.h"
#include "cuda/roles/rank_protocol.h"
#include "ops/push_rows.h"

namespace mok::cuda {

inline constexpr int kRowsPerLane = kConsumerRows / kWarp;

/// Where the rows of a lane begin: columns [task.col_begin, ...) of rows lane and lane + 32 of the
/// consumer's. Null = the row is not stored.
struct RowTargets {
  bfloat16* row[kRowsPerLane];
};

__device__ __forceinline__ int lane_row(int i) { return static_cast<int>(threadIdx.x) % kWarp + i * kWarp; }

/// Rows of G, U or Hd, `base` being the first row of the tile. Padding rows of routed tiles are stored too,
/// as the zeros that later readers count on.
__device__ __forceinline__ RowTargets local_targets(const program::Task& task, bfloat16* base,
                                                    std::int64_t width, int consumer) {
  RowTargets targets;
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) {
    const std::int64_t row = consumer * kConsumerRows + lane_row(i);
    targets.row[i] = row < task.padded_rows ? base + row * width + task.col_begin : nullptr;
  }
  return targets;
}

__device__ __forceinline__ RowTargets pushed_targets(const ops::RankView& view, const program::Task& task,
                                                     int consumer) {
  RowTargets targets;
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) {
    const std::int64_t row = consumer * kConsumerRows + lane_row(i);
    targets.row[i] = row < task.row_count ? ops::pushed_row(view, task, row) : nullptr;
  }
  return targets;
}

struct ChunkReader {
  ComputeStorage& storage;
  int consumer;
  RingCursor<kChunks> at = {};

  /// Stores `bytes` of each row of the next chunk, `first_col` columns behind the targets.
  __device__ __forceinline__ void store(const RowTargets& targets, std::int64_t first_col,
                                        std::uint32_t bytes) {
    storage.staged[consumer][at.stage].wait(at.parity, storage.cta.guard);
    const unsigned char* const chunk = storage.chunks[consumer][at.stage];
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      if (targets.row[i] == nullptr) continue;
      ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                 targets.row[i] + first_col,
                                 chunk + lane_row(i) * static_cast<int>(kChunkPitch), bytes);
    }
    ::cuda::ptx::cp_async_bulk_commit_group();
    // Read is enough for the chunk to be written anew; that the rows have arrived is waited for per task.
    ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>{});
    __syncwarp();
    if (threadIdx.x % kWarp == 0) storage.drained[consumer][at.stage].arrive();
    at.advance();
  }
};

__device__ __forceinline__ void store_task(const ops::RankView& view, const program::Task& task,
                                           ChunkReader& reader) {
  const auto cols = static_cast<std::uint32_t>(task.col_count);
  if (task.op == program::Op::gate_up || task.op == program::Op::shared_gate_up) {
    const ops::Activations rows =
        ops::activations(view, program::is_shared(task.op), task.expert, task.macrobatch, task.ring_row);
    const int consumer = reader.consumer;
    reader.store(local_targets(task, rows.gate, rows.intermediate, consumer), 0, cols * 2);
    reader.store(local_targets(task, rows.up, rows.intermediate, consumer), 0, cols * 2);
    if (view.pass != program::Pass::forward) return;
    reader.store(local_targets(task, rows.hidden, rows.intermediate, consumer), 0, cols * 2);
    return;
  }
  const RowTargets targets = pushed_targets(view, task, reader.consumer);
  for (std::uint32_t first = 0; first < cols; first += kChunkCols) {
    reader.store(targets, first, program::min<std::uint32_t>(kChunkCols, cols - first) * 2);
  }
}

__device__ __forceinline__ void run_store_role(const LaunchParams& params, const RankPlan& plan,
                                               ComputeStorage& storage, int consumer) {
  const ops::RankView& view = plan.view;
  Cta& cta = storage.cta;
  const bool is_leader = threadIdx.x % kWarp == 0;
  TaskAt at;
  ChunkReader reader{storage, consumer};
  for (;;) {
    storage.tasks.full[at.stage].wait(at.parity, cta.guard);
    TaskRecord& record = storage.records[at.stage];
    if (record.is_last) return;
    const program::Task& task = record.task;
    const bool sums = is_sum(task.op);
    const std::uint64_t begin = event_begin(params);
    if (!sums && !params.multiply_only) store_task(view, task, reader);
    ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<0>{});  // arrived, not only read
    __syncwarp();
    if (is_leader) {
      // The second of the two store warps publishes for both. Its count is at CTA scope with acquire and
      // release, so that its release at device scope covers the other warp's rows.
      ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_block> done(record.stores_done);
      if (done.fetch_add(1, ::cuda::memory_order_acq_rel) + 1 == kConsumers) {
        publish(plan, cta, task);
        if (task.step_signal >= 0) publish_push(plan, cta, record);
      }
      if (!sums) record_event(params, cta, Actor::store, task, begin, 0);
      storage.tasks.empty[at.stage].arrive();
    }
    at.advance();
  }
}

}  // namespace mok::cuda
