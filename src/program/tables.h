// SPDX-License-Identifier: Apache-2.0
// The tables of a schedule: what the routing decides, per rank. Flat arrays at offsets of ScheduleLayout.
#pragma once

#include <cstdint>

#include <mok/host_device.h>

#include "program/op.h"

namespace mok::program {

/// Why a schedule cannot be run. Every rank derives the same value from the same ids.
enum class Refusal : std::int32_t { none, capacity_overflow, expert_id_out_of_range };

/// Scalars of a schedule. After a refusal there are no tiles and no tasks, and every table is padding.
struct ScheduleHeader {
  Refusal refusal = Refusal::none;
  std::int32_t refusal_rank = -1;    ///< the fullest rank, or the first that brought a bad id
  std::int32_t refusal_expert = -1;  ///< its fullest expert (global), or the id
  std::int32_t refusal_choice = -1;  ///< k of the id
  std::int64_t refusal_token = -1;   ///< t of the id
  std::int64_t refusal_rows = 0;     ///< rows of the rank that overflowed
  std::int64_t num_tokens = 0;       ///< T of this rank
  std::int64_t num_tiles = 0;        ///< row tiles of this rank, padding included
  std::int64_t max_steps = 0;        ///< most steps over all ranks, for forward and backward alike
  std::int32_t num_stretches[kNumPasses][kNumRoles] = {};  ///< none after a refusal
};

/// Units of one op in a stretch. A unit is what the routing counts (a row tile, an expert, a group of
/// tokens); how many tasks it makes depends on the layer (columns, tile widths): so one schedule serves
/// layers of any width.
struct Part {
  Op op = Op::count;
  std::int32_t minibatch = 0;  ///< row-tile ops: whose tiles
  std::int32_t first = 0;      ///< weight_grad: first local expert; sums: first group of tokens
  std::int32_t units = 0;
};

/// A run of consecutive tasks in a rank's order whose parts are mixed in proportion to their tasks.
/// Sorted by (phase, communication before compute), the stretches of all ranks stand in one total order.
struct Stretch {
  static constexpr int kMaxParts = 3;
  std::int64_t phase = 0;
  std::int32_t step = 0;
  std::int32_t num_parts = 0;
  Part parts[kMaxParts];
  std::int32_t units_before[kNumOps] = {};  ///< of each op in the stretches before this one
};

/// Pointers into one rank's schedule memory. Pass-dependent tables of the sums exist for forward and backward
/// only.
struct ScheduleTables {
  ScheduleHeader* header = nullptr;
  std::int32_t* source_rank = nullptr;      ///< [capacity rows], -1 = padding
  std::int32_t* source_slot = nullptr;      ///< [capacity rows] t*K+k at the source rank, -1 = padding
  std::int32_t* rows_per_expert = nullptr;  ///< [El] real rows
  std::int32_t* first_tile = nullptr;       ///< [El+1]
  std::int32_t* tile_expert = nullptr;      ///< [capacity tiles] local expert, -1 past the end
  std::int32_t* topk_experts = nullptr;     ///< [Tmax*K] this rank's ids, -1 past its tokens
  std::int64_t* rank_tiles = nullptr;       ///< [R] row tiles of every rank
  std::int32_t* token_order[2] = {};        ///< [Tmax] tokens by the step that completes them
  std::int32_t* sum_begin[2] = {};  ///< [max steps + 1] groups of kSumTokens tokens done after i steps
  Stretch* stretches[kNumPasses][kNumRoles] = {};
};

/// Stretches that a rank's order may take: per step at most five, and the prologue and the end.
MOK_HOST_DEVICE constexpr std::int64_t max_stretches(std::int64_t max_steps) {
  return 5 * (max_steps + 1) + 4;
}

/// Index of the tables of the sums.
MOK_HOST_DEVICE constexpr int sum_table(Pass pass) { return pass == Pass::backward ? 1 : 0; }

}  // namespace mok::program
