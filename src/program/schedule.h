// SPDX-License-Identifier: Apache-2.0
// From the expert ids of all ranks to the rows of one rank.
//
// Rows of a rank are grouped by local expert; inside an expert they stand in global route order (source rank,
// token, k), which does not depend on R. Each expert's rows are padded to kRowTile.
#pragma once

#include <cstdint>

#include "program/layout.h"
#include "program/order.h"
#include "program/steps.h"
#include "program/tables.h"

namespace mok::program {

/// What build_schedule reads and uses as scratch.
struct RoutingInput {
  const std::int32_t* gathered = nullptr;  ///< [R,Tmax,K], -1 = dropped route or past a rank's tokens
  std::int64_t num_tokens = 0;             ///< T of this rank
  std::int32_t* histogram = nullptr;       ///< [R,E] scratch
  std::int32_t* expert_tile = nullptr;     ///< [E] scratch: an expert's first tile at its owner
};

namespace detail {

/// Routes per (source rank, expert); the first id out of range becomes the refusal.
MOK_HOST_DEVICE inline void count_routes(const Dims& dims, const RoutingInput& in, ScheduleHeader& header) {
  const std::int64_t slots = dims.slots();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.ranks) * dims.experts; ++i) in.histogram[i] = 0;
  for (std::int32_t p = 0; p < dims.ranks; ++p) {
    for (std::int64_t s = 0; s < slots; ++s) {
      const std::int32_t id = in.gathered[p * slots + s];
      if (id == -1) continue;
      if (id < 0 || id >= dims.experts) {
        header.refusal = Refusal::expert_id_out_of_range;
        header.refusal_rank = p;
        header.refusal_expert = id;
        header.refusal_token = s / dims.topk;
        header.refusal_choice = static_cast<std::int32_t>(s % dims.topk);
        return;
      }
      ++in.histogram[static_cast<std::int64_t>(p) * dims.experts + id];
    }
  }
}

/// First tile of every expert at its owner and tiles of every rank; of the ranks with too many rows the
/// fullest becomes the refusal. Every rank does this for all ranks, so that all decide alike without a
/// message.
MOK_HOST_DEVICE inline void place_experts(const Dims& dims, const RoutingInput& in,
                                          const ScheduleTables& tables) {
  for (std::int32_t rank = 0; rank < dims.ranks; ++rank) {
    std::int64_t tiles = 0;
    std::int64_t rows = 0;
    std::int64_t fullest_rows = -1;
    std::int32_t fullest = -1;
    for (std::int32_t e = rank * dims.local_experts(); e < (rank + 1) * dims.local_experts(); ++e) {
      std::int64_t expert_rows = 0;
      for (std::int32_t p = 0; p < dims.ranks; ++p) {
        expert_rows += in.histogram[static_cast<std::int64_t>(p) * dims.experts + e];
      }
      if (rank == dims.rank) {
        const std::int32_t local = e - rank * dims.local_experts();
        tables.rows_per_expert[local] = static_cast<std::int32_t>(expert_rows);
        tables.first_tile[local] = static_cast<std::int32_t>(tiles);
      }
      in.expert_tile[e] = static_cast<std::int32_t>(tiles);
      if (expert_rows > fullest_rows) {
        fullest_rows = expert_rows;
        fullest = e;
      }
      rows += expert_rows;
      tiles += ceil_div(expert_rows, kRowTile);
    }
    tables.rank_tiles[rank] = tiles;
    if (rank == dims.rank) tables.first_tile[dims.local_experts()] = static_cast<std::int32_t>(tiles);
    ScheduleHeader& header = *tables.header;
    if (rows > dims.routed_capacity && rows > header.refusal_rows) {
      header.refusal = Refusal::capacity_overflow;
      header.refusal_rank = rank;
      header.refusal_expert = fullest;
      header.refusal_rows = rows;
    }
  }
}

MOK_HOST_DEVICE inline void clear_rows(const Dims& dims, const ScheduleTables& tables) {
  for (std::int64_t row = 0; row < dims.capacity_rows(); ++row) {
    tables.source_rank[row] = -1;
    tables.source_slot[row] = -1;
  }
  for (std::int64_t tile = 0; tile < dims.capacity_tiles(); ++tile) tables.tile_expert[tile] = -1;
}

MOK_HOST_DEVICE inline void clear_tokens(const Dims& dims, const ScheduleTables& tables) {
  for (int table = 0; table < 2; ++table) {
    for (std::int64_t t = 0; t < dims.max_tokens; ++t) tables.token_order[table][t] = -1;
    for (std::int64_t i = 0; i <= dims.max_steps(); ++i) tables.sum_begin[table][i] = 0;
  }
}

MOK_HOST_DEVICE inline void clear_experts(const Dims& dims, const ScheduleTables& tables) {
  for (std::int32_t e = 0; e < dims.local_experts(); ++e) tables.rows_per_expert[e] = 0;
  for (std::int32_t e = 0; e <= dims.local_experts(); ++e) tables.first_tile[e] = 0;
  for (std::int32_t p = 0; p < dims.ranks; ++p) tables.rank_tiles[p] = 0;
}

/// Fills this rank's rows in global route order.
MOK_HOST_DEVICE inline void fill_rows(const Dims& dims, const RoutingInput& in,
                                      const ScheduleTables& tables) {
  const std::int64_t slots = dims.slots();
  const std::int32_t first_expert = dims.rank * dims.local_experts();
  // rows_per_expert serves as the fill count and ends at the same values.
  for (std::int32_t e = 0; e < dims.local_experts(); ++e) tables.rows_per_expert[e] = 0;
  for (std::int32_t p = 0; p < dims.ranks; ++p) {
    for (std::int64_t s = 0; s < slots; ++s) {
      const std::int32_t local = in.gathered[p * slots + s] - first_expert;
      if (local < 0 || local >= dims.local_experts()) continue;
      const std::int64_t row = tables.first_tile[local] * kRowTile + tables.rows_per_expert[local]++;
      tables.source_rank[row] = p;
      tables.source_slot[row] = static_cast<std::int32_t>(s);
    }
  }
  for (std::int32_t e = 0; e < dims.local_experts(); ++e) {
    for (std::int32_t tile = tables.first_tile[e]; tile < tables.first_tile[e + 1]; ++tile) {
      tables.tile_expert[tile] = e;
    }
  }
}

/// Steps, over all owners, after which every route of a token is in its slot. `fill` counts this rank's rows
/// per expert and is advanced by the token's routes, so tokens must be asked in order.
MOK_HOST_DEVICE inline std::int64_t steps_needed(const Dims& dims, const ScheduleTables& tables, Pass pass,
                                                 const std::int32_t* expert_tile, const std::int32_t* ids,
                                                 std::int32_t* fill) {
  std::int64_t need = 0;
  for (std::int32_t k = 0; k < dims.topk; ++k) {
    const std::int32_t id = ids[k];
    if (id < 0) continue;
    const std::int64_t row_in_expert = fill[id]++;
    const Steps owner = Steps::make(dims, tables.rank_tiles[id / dims.local_experts()], pass);
    need = max(need, owner.step_of_tile(expert_tile[id] + row_in_expert / kRowTile) + 1);
  }
  return need;
}

/// Sorts this rank's tokens by steps_needed (a stable counting sort), and tells how many groups of kSumTokens
/// tokens can be summed after each number of steps.
MOK_HOST_DEVICE inline void sort_tokens(const Dims& dims, const RoutingInput& in,
                                        const ScheduleTables& tables, Pass pass) {
  const std::int64_t steps = tables.header->max_steps;
  std::int32_t* order = tables.token_order[sum_table(pass)];
  std::int32_t* end =
      tables.sum_begin[sum_table(pass)];  // [steps + 1] tokens that need at most that many steps
  const std::int32_t* ids = in.gathered + dims.rank * dims.slots();
  std::int32_t* fill = in.histogram + static_cast<std::int64_t>(dims.rank) * dims.experts;
  for (std::int64_t i = 0; i <= steps; ++i) end[i] = 0;
  for (const bool place : {false, true}) {
    for (std::int32_t e = 0; e < dims.experts; ++e) {
      fill[e] = 0;
      for (std::int32_t p = 0; p < dims.rank; ++p) {
        fill[e] += in.histogram[static_cast<std::int64_t>(p) * dims.experts + e];
      }
    }
    for (std::int64_t t = 0; t < in.num_tokens; ++t) {
      const std::int64_t need = steps_needed(dims, tables, pass, in.expert_tile, ids + t * dims.topk, fill);
      if (place) {
        order[end[need]++] = static_cast<std::int32_t>(t);
      } else {
        ++end[need];
      }
    }
    if (place) break;
    std::int32_t tokens = 0;  // counts become first places
    for (std::int64_t i = 0; i <= steps; ++i) {
      const std::int32_t count = end[i];
      end[i] = tokens;
      tokens += count;
    }
  }
  for (std::int64_t i = 0; i < steps; ++i) end[i] /= static_cast<std::int32_t>(kSumTokens);
  end[0] = 0;  // tokens without routes wait for the first step's place in the order
  end[steps] = static_cast<std::int32_t>(ceil_div(in.num_tokens, kSumTokens));
}

}  // namespace detail

/// Fills all tables of one rank. A refusal leaves them defined and empty.
MOK_HOST_DEVICE inline void build_schedule(const Dims& dims, const RoutingInput& in,
                                           const ScheduleTables& tables) {
  *tables.header = ScheduleHeader{};
  ScheduleHeader& header = *tables.header;
  header.num_tokens = in.num_tokens;
  for (std::int64_t s = 0; s < dims.slots(); ++s) {
    tables.topk_experts[s] = in.gathered[dims.rank * dims.slots() + s];
  }
  detail::clear_rows(dims, tables);
  detail::clear_tokens(dims, tables);
  detail::clear_experts(dims, tables);
  detail::count_routes(dims, in, header);
  if (header.refusal == Refusal::none) detail::place_experts(dims, in, tables);
  if (header.refusal != Refusal::none) {
    detail::clear_experts(dims, tables);
    return;
  }
  header.num_tiles = tables.rank_tiles[dims.rank];
  for (std::int32_t p = 0; p < dims.ranks; ++p) {
    header.max_steps = max(header.max_steps, ceil_div(tables.rank_tiles[p], dims.minibatch_tiles));
  }
  detail::fill_rows(dims, in, tables);
  detail::sort_tokens(dims, in, tables, Pass::forward);
  detail::sort_tokens(dims, in, tables, Pass::backward);
  build_order(dims, tables);
}

}  // namespace mok::program
