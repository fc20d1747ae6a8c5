// SPDX-License-Identifier: Apache-2.0
// Sizes that every function of the task program works from: plain data, the same on host and device.
#pragma once

#include <cstdint>

#include <mok/config.h>
#include <mok/host_device.h>

namespace mok::program {

/// Rows of a segment are padded to this; T, rows and macrobatch cuts are counted in it.
inline constexpr std::int64_t kRowTile = 128;
/// Columns per partial sum of d_router_weights. 64 divides every tile width and every legal I, so the order
/// of that sum does not depend on the tile width.
inline constexpr std::int64_t kPartialCols = 64;
/// Tokens per task of the sums over slots.
inline constexpr std::int64_t kSumTokens = 32;
/// Row tiles that share a pass over the columns (row-fastest order), so that weights stay in cache.
inline constexpr std::int64_t kSwizzleTiles = 8;

template <class Int>
MOK_HOST_DEVICE constexpr Int ceil_div(Int a, Int b) {
  return (a + b - 1) / b;
}

/// a / b of what is not negative and below 2^31, which counts of tiles, rows and tasks are. A GPU divides
/// 32-bit words in a fifth of the instructions and half the registers.
MOK_HOST_DEVICE constexpr std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
}
MOK_HOST_DEVICE constexpr std::int64_t remainder(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>(a) % static_cast<std::uint32_t>(b);
}

template <class Int>
MOK_HOST_DEVICE constexpr Int min(Int a, Int b) {
  return b < a ? b : a;
}

template <class Int>
MOK_HOST_DEVICE constexpr Int max(Int a, Int b) {
  return a < b ? b : a;
}

/// Output tile widths of a backend (rows are kRowTile). They change which task computes an element, never its
/// bits.
struct TileShape {
  std::int64_t gate_up_cols = 128;  ///< columns of gate, and as many of up
  std::int64_t down_cols = 128;
  std::int64_t dhidden_cols = 128;
  std::int64_t dx_cols = 128;
  std::int64_t weight_grad_rows = 128;
  std::int64_t weight_grad_cols = 128;
};

/// One rank's view of a workspace and a layer.
struct Dims {
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t topk = 1;
  std::int32_t experts = 1;
  std::int64_t max_tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t shared_intermediate = 0;
  std::int64_t routed_capacity = 0;   ///< real rows that a rank may get
  std::int64_t minibatch_tiles = 1;   ///< row tiles per step of the order
  std::int64_t macrobatch_tiles = 1;  ///< row tiles that the ring holds; a multiple of minibatch_tiles
  TileShape tile;

  MOK_HOST_DEVICE constexpr std::int32_t local_experts() const { return experts / ranks; }
  MOK_HOST_DEVICE constexpr std::int64_t slots() const { return max_tokens * topk; }
  /// Row tiles that tables hold: each expert pads by less than a tile.
  MOK_HOST_DEVICE constexpr std::int64_t capacity_tiles() const {
    return ceil_div(routed_capacity, kRowTile) + min<std::int64_t>(local_experts(), routed_capacity);
  }
  MOK_HOST_DEVICE constexpr std::int64_t capacity_rows() const { return capacity_tiles() * kRowTile; }
  MOK_HOST_DEVICE constexpr std::int64_t ring_tiles() const {
    return min(macrobatch_tiles, capacity_tiles());
  }
  MOK_HOST_DEVICE constexpr std::int64_t ring_rows() const { return ring_tiles() * kRowTile; }
  MOK_HOST_DEVICE constexpr std::int64_t max_macrobatches() const {
    return max<std::int64_t>(1, ceil_div(capacity_tiles(), macrobatch_tiles));
  }
  MOK_HOST_DEVICE constexpr std::int64_t max_steps() const {
    return ceil_div(capacity_tiles(), minibatch_tiles);
  }
  MOK_HOST_DEVICE constexpr std::int64_t max_token_tiles() const { return ceil_div(max_tokens, kRowTile); }
  MOK_HOST_DEVICE constexpr std::int64_t partials() const { return intermediate / kPartialCols; }
};

/// Real rows that a rank's tables are made for: Tmax*K*max(2, ceil(R*multiplier)), and never more than R
/// ranks can send (R*Tmax*K).
MOK_HOST_DEVICE constexpr std::int64_t routed_capacity(std::int64_t slots, std::int64_t ranks,
                                                       double multiplier) {
  const double scaled = static_cast<double>(ranks) * multiplier;
  auto factor = static_cast<std::int64_t>(scaled);
  if (static_cast<double>(factor) < scaled) ++factor;
  return slots * min(ranks, max<std::int64_t>(2, factor));
}

/// Arguments must have been checked. `layer` may be all zero when only the symmetric sizes matter.
inline Dims make_dims(const Config& config, const WorkspaceOptions& options, const LayerShape& layer,
                      int rank, const TileShape& tile) {
  Dims dims;
  dims.ranks = options.ranks;
  dims.rank = rank;
  dims.topk = options.topk;
  dims.experts = layer.num_experts;
  dims.max_tokens = options.max_tokens;
  dims.hidden = options.hidden_size;
  dims.intermediate = layer.intermediate_size;
  dims.shared_intermediate = layer.shared_intermediate_size;
  dims.routed_capacity = routed_capacity(dims.slots(), dims.ranks, config.schedule_capacity_multiplier);
  dims.minibatch_tiles = config.minibatch_size / kRowTile;
  dims.macrobatch_tiles = config.macrobatch_size / kRowTile;
  dims.tile = tile;
  return dims;
}

}  // namespace mok::program
