// SPDX-License-Identifier: Apache-2.0
// The warps of a dispatch CTA: one prepares tiles, one pulls their rows into shared memory, one stores them
// to the ring; the others clear the counters of the next pass.
#pragma once

#include <cstdint>

#include "cuda/pipeline/dispatch_storage.h"
#include "cuda/roles/rank_protocol.h"
#include "cuda/roles/task_role.h"
#include "ops/dispatch/dispatch.cuh"

namespace mok::cuda {

/// Claims row tiles and looks up where their rows come from, a tile ahead.
__device__ inline void run_dispatch_task_role(const LaunchParams& params, const RankPlan& plan,
                                              DispatchStorage& storage) {
  Cta& cta = storage.cta;
  const Waiter waiter{params, plan, cta.epoch, static_cast<std::int32_t>(program::Role::communication)};
  bool peers_are_ready = plan.view.dims.ranks == 1;
  const auto prepare = [&](DispatchRecord& record) {
    if (!peers_are_ready) {
      // Their x may be read, and their slots, which they have read in the pass before, may be written: every
      // push of this rank comes after a pull of it.
      WaitSubject subject{static_cast<std::int32_t>(record.task.op), record.task.row_tile};
      subject.is_arrival = true;
      peers_are_ready = wait_for_flags(waiter, plan.view.symmetric.ready, subject);
      if (!peers_are_ready) return false;
    }
    for (int row = static_cast<int>(threadIdx.x) % kWarp; row < kTileRows; row += kWarp) {
      record.source[row] = ops::dispatch_source(params, plan.view, record.task.row_begin + row);
    }
    return true;
  };
  run_task_role(waiter, cta, program::Role::communication, storage.tasks, storage.records, storage.cursor,
                prepare);
}

__device__ inline void run_dispatch_load_role(const LaunchParams& params, const RankPlan& plan,
                                              DispatchStorage& storage) {
  Cta& cta = storage.cta;
  const BatchShape shape = BatchShape::make(plan.view.dims.hidden);
  const auto lane = static_cast<std::uint32_t>(threadIdx.x) % kWarp;
  TaskAt at;
  RingCursor<kBatches> batch;
  for (;;) {
    storage.tasks.full[at.stage].wait(at.parity, cta.guard);
    const DispatchRecord& record = storage.records[at.stage];
    if (record.is_last) return;
    for (std::uint32_t i = 0; i < shape.batches() && !params.multiply_only; ++i) {
      const std::uint32_t piece = i % shape.pieces;
      const std::uint32_t bytes = shape.piece_bytes(piece);
      const std::byte* const source =
          lane < shape.rows ? record.source[i / shape.pieces * shape.rows + lane] : nullptr;
      const auto sources = static_cast<std::uint32_t>(__popc(__ballot_sync(~0u, source != nullptr)));
      Barrier& full = storage.full[batch.stage];
      storage.empty[batch.stage].wait(batch.parity ^ 1, cta.guard);
      if (lane == 0) full.arrive_expect(sources * bytes);
      __syncwarp();  // the bytes are expected before they come
      if (source != nullptr) {
        ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                   storage.slots + (batch.stage * shape.rows + lane) * shape.slot_bytes,
                                   source + static_cast<std::size_t>(piece) * kPieceBytes, bytes, &full.word);
      }
      batch.advance();
    }
    __syncwarp();
    if (lane == 0) storage.tasks.empty[at.stage].arrive();
    at.advance();
  }
}

/// Stores what the load warp has brought. A tile is published while the next one is under way, once its own
/// stores have arrived: waiting for them at once would leave the ring idle for a microsecond per tile.
struct DispatchStorer {
  const LaunchParams& params;
  const RankPlan& plan;
  DispatchStorage& storage;
  BatchShape shape;
  RingCursor<kBatches> batch = {};
  program::Task unpublished = {};
  std::uint64_t begun = 0;
  bool has_unpublished = false;

  __device__ std::uint32_t lane() const { return static_cast<std::uint32_t>(threadIdx.x) % kWarp; }

  /// All lanes have waited for their stores of the tile.
  __device__ void publish_stored() {
    __syncwarp();
    if (lane() == 0) {
      publish(plan, storage.cta, unpublished);
      record_event(params, storage.cta, Actor::dispatch, unpublished, begun,
                   2 * static_cast<std::int64_t>(kTileRows) * shape.row_bytes);
    }
    has_unpublished = false;
  }
  __device__ void flush() {
    if (!has_unpublished) return;
    ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<0>{});
    publish_stored();
  }

  __device__ void store_row(std::byte* to, const unsigned char* from, std::uint32_t bytes) const {
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared, to, from, bytes);
  }
  __device__ void store_batch(const DispatchRecord& record, std::uint32_t i) {
    const std::uint32_t piece = i % shape.pieces;
    const std::uint32_t row = i / shape.pieces * shape.rows + lane();
    const std::uint32_t bytes = shape.piece_bytes(piece);
    storage.full[batch.stage].wait(batch.parity, storage.cta.guard);
    if (lane() < shape.rows) {
      std::byte* const to = reinterpret_cast<std::byte*>(plan.view.rows(record.task.macrobatch).x) +
                            (record.task.ring_row + row) * shape.row_bytes +
                            static_cast<std::size_t>(piece) * kPieceBytes;
      if (record.source[row] != nullptr) {
        store_row(to, storage.slots + (batch.stage * shape.rows + lane()) * shape.slot_bytes, bytes);
      } else {
        for (std::uint32_t done = 0; done < bytes; done += kZeroBytes) {
          store_row(to + done, storage.zeros, program::min(kZeroBytes, bytes - done));
        }
      }
    }
    ::cuda::ptx::cp_async_bulk_commit_group();
    if (i == 0 && has_unpublished) {
      ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<1>{});  // all but this batch have arrived
      publish_stored();
    }
    ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>{});
    __syncwarp();
    if (lane() == 0) storage.empty[batch.stage].arrive();
    batch.advance();
  }

  __device__ void run() {
    Cta& cta = storage.cta;
    TaskAt at;
    for (;;) {
      if (has_unpublished && !__all_sync(~0u, storage.tasks.full[at.stage].try_wait(at.parity))) flush();
      storage.tasks.full[at.stage].wait(at.parity, cta.guard);
      const DispatchRecord& record = storage.records[at.stage];
      if (record.is_last) break;
      const std::uint64_t begin = event_begin(params);
      for (std::uint32_t i = 0; i < shape.batches() && !params.multiply_only; ++i) store_batch(record, i);
      flush();  // of multiply_only; else the first batch has done it
      unpublished = record.task;
      begun = begin;
      has_unpublished = true;
      __syncwarp();
      if (lane() == 0) storage.tasks.empty[at.stage].arrive();
      at.advance();
    }
    flush();
  }
};

/// Zeros in the counters of the next pass, by the threads from `first` on.
__device__ inline void clear_spare_counters(const RankPlan& plan, const Cta& cta, int first) {
  const std::int64_t size = program::CounterLayout::make(plan.view.dims).size();
  std::uint32_t* const both = plan.control.counters;
  std::uint32_t* const spare = cta.counters == both ? both + size : both;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) - first; i < size; i += kThreads - first) {
    spare[i] = 0;
  }
}

/// All threads of the CTA; returns when every pull has been published.
__device__ inline void run_dispatch_cta(const LaunchParams& params, const RankPlan& plan,
                                        DispatchStorage& storage) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (warp == 0) {
    run_dispatch_task_role(params, plan, storage);
  } else if (warp == 1) {
    run_dispatch_load_role(params, plan, storage);
  } else if (warp == 2) {
    DispatchStorer{params, plan, storage, BatchShape::make(plan.view.dims.hidden)}.run();
  } else if (storage.cta.index == 0) {
    clear_spare_counters(plan, storage.cta, 3 * kWarp);
  }
}

}  // namespace mok::cuda
