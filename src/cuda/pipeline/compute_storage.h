// SPDX-License-Identifier: Apache-2.0
// Shared memory of a CTA that computes.
#pragma once

#include <cstdint>

#include "cuda/pipeline/cta.h"

namespace mok::cuda {

/// One step of K: a 128-row tile of A and 256 columns of B, both as rows of 128 bytes, swizzled.
struct Stage {
  unsigned char a[kABytes];
  unsigned char b[kBBytes];
};

struct ComputeStorage {
  alignas(1024) Stage stages[kStages];  // the 128-byte swizzle repeats every 1024 bytes
  alignas(128) unsigned char chunks[kConsumers][kChunks][kChunkBytes];
  Barrier full[kStages];                 ///< TMA has filled the stage
  Barrier empty[kStages];                ///< both consumers have read it
  Barrier staged[kConsumers][kChunks];   ///< the consumer has written the chunk
  Barrier drained[kConsumers][kChunks];  ///< the store warp has read it
  TaskBarriers tasks;
  TaskRecord records[kTasksAhead];
  CursorStorage cursor;
  Cta cta;

  /// Arrivals that free a task record: the load warp, a store warp and four warps per consumer.
  static constexpr std::uint32_t kTaskReaders = 1 + kConsumers * (1 + kWarpgroup / kWarp);

  __device__ void init_barriers() {
    for (int i = 0; i < kStages; ++i) {
      full[i].init(1);
      empty[i].init(kConsumers);
    }
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      for (int i = 0; i < kChunks; ++i) {
        staged[consumer][i].init(kWarpgroup);
        drained[consumer][i].init(1);
      }
    }
    tasks.init(kTaskReaders);
  }
};

static_assert(sizeof(ComputeStorage) <= kSharedLimit);

}  // namespace mok::cuda
