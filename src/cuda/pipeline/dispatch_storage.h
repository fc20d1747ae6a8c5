// SPDX-License-Identifier: Apache-2.0
// Shared memory of a CTA that dispatches.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"

namespace mok::cuda {

/// Rows of a tile, on their way from their sources to the ring.
inline constexpr std::uint32_t kSlotBytes = 208 * 1024;
/// Batches of rows in flight: one being loaded, one being stored, one between.
inline constexpr int kBatches = 3;
/// Longest piece of a row that is copied at once: rows of 2H bytes go in pieces of this.
inline constexpr std::uint32_t kPieceBytes = 16384;
inline constexpr std::uint32_t kZeroBytes = 4096;

/// How rows of `row_bytes` share the slots.
struct BatchShape {
  std::uint32_t row_bytes;
  std::uint32_t slot_bytes;  ///< the longest piece
  std::uint32_t pieces;      ///< per row
  std::uint32_t rows;        ///< per batch, a power of two, one per lane

  __device__ static BatchShape make(std::int64_t hidden) {
    BatchShape shape;
    shape.row_bytes = static_cast<std::uint32_t>(hidden) * 2;
    shape.slot_bytes = program::min(shape.row_bytes, kPieceBytes);
    shape.pieces = program::ceil_div(shape.row_bytes, kPieceBytes);
    shape.rows = kWarp;
    while (shape.rows * kBatches * shape.slot_bytes > kSlotBytes) shape.rows /= 2;
    return shape;
  }
  /// Batches that a tile takes.
  __device__ std::uint32_t batches() const { return kTileRows / rows * pieces; }
  __device__ std::uint32_t piece_bytes(std::uint32_t piece) const {
    return program::min(kPieceBytes, row_bytes - piece * kPieceBytes);
  }
};

/// One row tile to be pulled.
struct DispatchRecord {
  program::Task task;
  bool is_last = false;
  const std::byte* source[kTileRows];  ///< null = padding, to be filled with zeros
};

struct DispatchStorage {
  alignas(128) unsigned char slots[kSlotBytes];
  alignas(128) unsigned char zeros[kZeroBytes];
  Barrier full[kBatches];   ///< the batch's rows have come
  Barrier empty[kBatches];  ///< they have been read again
  TaskBarriers tasks;
  DispatchRecord records[kTasksAhead];
  CursorStorage cursor;
  Cta cta;

  static constexpr std::uint32_t kTaskReaders = 2;  ///< the load warp and the store warp

  __device__ void init_barriers() {
    for (int i = 0; i < kBatches; ++i) {
      full[i].init(1);
      empty[i].init(1);
    }
    tasks.init(kTaskReaders);
  }
  /// Before the memory is used for something else.
  __device__ void invalidate_barriers() {
    for (int i = 0; i < kBatches; ++i) {
      full[i].invalidate();
      empty[i].invalidate();
    }
    tasks.invalidate();
  }
};

static_assert(sizeof(DispatchStorage) <= kSharedLimit);

}  // namespace mok::cuda
