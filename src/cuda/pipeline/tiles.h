// SPDX-License-Identifier: Apache-2.0
// Sizes of the compute CTA: tile, stages, staging, registers. Every budget stands here, with a check of its
// total.
#pragma once

#include <cstdint>

#include "program/dims.h"

namespace mok::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kWarpgroup = 128;
inline constexpr int kConsumers = 2;  ///< warpgroups that multiply, 64 rows each
inline constexpr int kThreads = (kConsumers + 1) * kWarpgroup;

inline constexpr int kTileRows = 128;
inline constexpr int kTileCols = 256;  ///< of B: 256 columns of one matrix, or 128 of gate and 128 of up
inline constexpr int kTileK = 64;      ///< 128 bytes, the swizzle's row
inline constexpr int kConsumerRows = kTileRows / kConsumers;
static_assert(kTileRows == program::kRowTile);

inline constexpr int kStages = 3;
inline constexpr std::uint32_t kABytes = kTileRows * kTileK * 2;
inline constexpr std::uint32_t kBBytes = kTileCols * kTileK * 2;
inline constexpr std::uint32_t kStageBytes = kABytes + kBBytes;

/// A chunk of results on its way out: 64 rows x 128 columns. Rows are padded by 16 bytes, so that stmatrix
/// has no bank conflicts; bulk copies take them row by row.
inline constexpr int kChunkCols = 128;
inline constexpr std::uint32_t kChunkPitch = kChunkCols * 2 + 16;
inline constexpr std::uint32_t kChunkBytes = kConsumerRows * kChunkPitch;
/// Chunks per consumer. Two, with three stages, were 5-15% faster than one with four where consumers store
/// themselves (docs/facts.md).
inline constexpr int kChunks = 2;

/// Tasks that the task warp prepares ahead of the roles that run them.
inline constexpr int kTasksAhead = 2;

// The producers' warpgroup gives up registers for the consumers, whose accumulators alone take 128 a thread.
// What can be shared out is what the CTA is launched with, the same number for every thread in steps of 8:
// asking for more would wait forever.
inline constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
inline constexpr int kProducerRegisters = 72;
inline constexpr int kConsumerRegisters = 216;
static_assert((kProducerRegisters + kConsumers * kConsumerRegisters) * kWarpgroup <=
              kLaunchRegisters * kThreads);
static_assert(kProducerRegisters % 8 == 0 && kConsumerRegisters % 8 == 0);

/// What a CTA of SM90 may have.
inline constexpr std::uint32_t kSharedLimit = 232448;

}  // namespace mok::cuda
