// SPDX-License-Identifier: Apache-2.0
// Every offset of every buffer, computed once here for host, kernel and CPU alike. Nobody derives one by
// hand.
//
// A layout lists its fields in visit(); building it and reporting it both walk that list, so that a buffer
// cannot be allocated and left out of the report.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mok/bfloat16.h>
#include <mok/host_device.h>

#include "program/counters.h"
#include "program/dims.h"
#include "program/tables.h"

namespace mok::program {

/// A typed array at an offset of some base address.
template <class T>
struct Field {
  std::int64_t offset = 0;
  std::int64_t count = 0;

  MOK_HOST_DEVICE constexpr std::int64_t bytes() const {
    return count * static_cast<std::int64_t>(sizeof(T));
  }
  MOK_HOST_DEVICE T* at(std::byte* base) const { return reinterpret_cast<T*>(base + offset); }
  MOK_HOST_DEVICE const T* at(const std::byte* base) const {
    return reinterpret_cast<const T*>(base + offset);
  }
};

/// Fields start on cache-line multiples, which also meets the 128-byte alignment of tensor copies.
inline constexpr std::int64_t kFieldAlignment = 256;

namespace detail {

/// Sets the offset of each visited field in turn.
struct Packer {
  std::int64_t bytes = 0;

  template <class T>
  MOK_HOST_DEVICE constexpr void operator()(const char* /*name*/, Field<T>& field, std::int64_t count) {
    field.count = count;
    field.offset = bytes;
    bytes = ceil_div(bytes + field.bytes(), kFieldAlignment) * kFieldAlignment;
  }
};

}  // namespace detail

/// Memory that peers read and write. A function of R, Tmax, H and K alone, so that one allocation serves
/// layers of any kind.
struct SymmetricLayout {
  Field<std::uint64_t> ready;  ///< [R] epoch up to which rank p's inputs are in its symmetric memory
  Field<std::uint64_t> done;   ///< [R] epoch up to which rank p has finished its pulls and pushes
  Field<std::uint64_t>
      watermark;               ///< [R] steps of the present epoch that rank p has pushed, see watermark_value
  Field<std::uint64_t> abort;  ///< [1] the failing epoch; sticky
  Field<std::uint64_t>
      heartbeat;               ///< [1] tasks finished, ever: a deadline counts from the last beat of any rank
  Field<std::uint64_t> epoch;  ///< [1] passes ended
  Field<std::int64_t> num_tokens;    ///< [1] T of this rank in the present pass
  Field<std::int32_t> topk_experts;  ///< [Tmax,K]
  Field<float> router_weights;       ///< [Tmax,K]
  Field<bfloat16> x;                 ///< [Tmax,H]
  Field<bfloat16> grad_output;       ///< [Tmax,H]
  Field<bfloat16> slots;             ///< [Tmax*K,H] y in forward, gradients of x in backward
  Field<float> weight_slots;         ///< [Tmax*K] gradients of router_weights
  std::int64_t bytes = 0;

  template <class Self, class Visitor>
  MOK_HOST_DEVICE static constexpr void visit(Self& self, const Dims& d, Visitor&& visitor) {
    visitor("flags: ready", self.ready, d.ranks);
    visitor("flags: done", self.done, d.ranks);
    visitor("flags: watermark", self.watermark, d.ranks);
    visitor("flags: abort", self.abort, 1);
    visitor("flags: heartbeat", self.heartbeat, 1);
    visitor("flags: epoch", self.epoch, 1);
    visitor("num_tokens", self.num_tokens, 1);
    visitor("topk_experts [Tmax,K]", self.topk_experts, d.slots());
    visitor("router_weights [Tmax,K]", self.router_weights, d.slots());
    visitor("x [Tmax,H]", self.x, d.max_tokens * d.hidden);
    visitor("grad_output [Tmax,H]", self.grad_output, d.max_tokens * d.hidden);
    visitor("slots [Tmax*K,H]", self.slots, d.slots() * d.hidden);
    visitor("weight slots [Tmax*K]", self.weight_slots, d.slots());
  }
};

/// Memory of one rank for one kind of layer. Buffers that only one pass uses are shared by both, passes being
/// serialised.
struct LocalLayout {
  Field<std::uint32_t> counters;     ///< [2, CounterLayout::size] two sets, used in turn
  Field<std::uint32_t> watermark;    ///< [1] steps published so far in this pass
  Field<std::uint64_t> tickets;      ///< [kNumRoles] next task of each role
  Field<std::uint32_t> counter_set;  ///< [1] the set of the next pass (GPU; the CPU's host knows it)
  Field<std::uint32_t> arrivals;     ///< [3] CTAs of a launch: begun, ended of this rank, ended (GPU)
  Field<bfloat16> hidden;            ///< [ring,I] Hd in forward, Hw in backward
  Field<bfloat16> grad_rows;         ///< [ring,H] dispatched grad_output
  Field<float> row_weights;          ///< [ring] router weight of each row
  Field<bfloat16> d_gate;            ///< [ring,I]
  Field<bfloat16> d_up;              ///< [ring,I]
  Field<float> weight_partials;      ///< [ring, I/64] partial sums of d_router_weights
  Field<bfloat16> replay_x;          ///< [ring,H] rows of the macrobatches that no context holds
  Field<bfloat16> replay_gate;       ///< [ring,I]
  Field<bfloat16> replay_up;         ///< [ring,I]
  Field<float> carry;                ///< [2,3,I*H] weight gradients of an expert cut by a macrobatch boundary
  Field<bfloat16> shared_hidden;     ///< [Tmax,Is] as hidden
  Field<bfloat16> shared_d_gate;     ///< [Tmax,Is]
  Field<bfloat16> shared_d_up;       ///< [Tmax,Is]
  Field<bfloat16> shared_out;        ///< [Tmax,H] output of the shared expert, or its gradient of x
  std::int64_t bytes = 0;

  template <class Self, class Visitor>
  MOK_HOST_DEVICE static constexpr void visit(Self& self, const Dims& d, Visitor&& visitor) {
    const std::int64_t ring = d.ring_rows();
    const std::int64_t replay = d.max_macrobatches() > 1 ? ring : 0;
    const std::int64_t shared = d.max_tokens * d.shared_intermediate;
    visitor("counters", self.counters, 2 * CounterLayout::make(d).size());
    visitor("published steps", self.watermark, 1);
    visitor("tickets", self.tickets, kNumRoles);
    visitor("counter set in use", self.counter_set, 1);
    visitor("arrivals", self.arrivals, 3);
    visitor("hidden rows [ring,I]", self.hidden, ring * d.intermediate);
    visitor("grad_output rows [ring,H]", self.grad_rows, ring * d.hidden);
    visitor("router weight per row [ring]", self.row_weights, ring);
    visitor("d_gate rows [ring,I]", self.d_gate, ring * d.intermediate);
    visitor("d_up rows [ring,I]", self.d_up, ring * d.intermediate);
    visitor("partials of d_router_weights [ring,I/64]", self.weight_partials, ring * d.partials());
    visitor("replayed x rows [ring,H]", self.replay_x, replay * d.hidden);
    visitor("replayed gate rows [ring,I]", self.replay_gate, replay * d.intermediate);
    visitor("replayed up rows [ring,I]", self.replay_up, replay * d.intermediate);
    visitor("carried weight gradients [2,3,I*H]", self.carry, replay > 0 ? 6 * d.intermediate * d.hidden : 0);
    visitor("shared hidden [Tmax,Is]", self.shared_hidden, shared);
    visitor("shared d_gate [Tmax,Is]", self.shared_d_gate, shared);
    visitor("shared d_up [Tmax,Is]", self.shared_d_up, shared);
    visitor("shared output [Tmax,H]", self.shared_out,
            d.shared_intermediate > 0 ? d.max_tokens * d.hidden : 0);
  }
};

/// Memory of one rank's schedule.
struct ScheduleLayout {
  Field<ScheduleHeader> header;
  Field<std::int32_t> source_rank;
  Field<std::int32_t> source_slot;
  Field<std::int32_t> rows_per_expert;
  Field<std::int32_t> first_tile;
  Field<std::int32_t> tile_expert;
  Field<std::int32_t> topk_experts;
  Field<std::int64_t> rank_tiles;
  Field<std::int32_t> token_order;  ///< [2,Tmax]
  Field<std::int32_t> sum_begin;    ///< [2, max steps over ranks + 1]
  Field<Stretch> stretches;         ///< [passes, roles, max_stretches]
  Field<std::int32_t> gathered;     ///< [R,Tmax,K] ids of all ranks; scratch of the build
  Field<std::int32_t> histogram;    ///< [R,E] scratch of the build
  Field<std::int32_t> expert_tile;  ///< [E] scratch of the build
  std::int64_t bytes = 0;

  template <class Self, class Visitor>
  MOK_HOST_DEVICE static constexpr void visit(Self& self, const Dims& d, Visitor&& visitor) {
    visitor("header", self.header, 1);
    visitor("source rank [capacity]", self.source_rank, d.capacity_rows());
    visitor("source slot [capacity]", self.source_slot, d.capacity_rows());
    visitor("rows per expert [El]", self.rows_per_expert, d.local_experts());
    visitor("first tile [El+1]", self.first_tile, d.local_experts() + 1);
    visitor("expert of tile [capacity/128]", self.tile_expert, d.capacity_tiles());
    visitor("topk_experts [Tmax,K]", self.topk_experts, d.slots());
    visitor("tiles of each rank [R]", self.rank_tiles, d.ranks);
    visitor("token order [2,Tmax]", self.token_order, 2 * d.max_tokens);
    visitor("sums per step [2,steps+1]", self.sum_begin, 2 * (d.max_steps() + 1));
    visitor("task order", self.stretches, max_stretches(d.max_steps()) * kNumPasses * kNumRoles);
    visitor("gathered ids [R,Tmax,K]", self.gathered, d.ranks * d.slots());
    visitor("histogram [R,E]", self.histogram, static_cast<std::int64_t>(d.ranks) * d.experts);
    visitor("first tile of every expert [E]", self.expert_tile, d.experts);
  }

  MOK_HOST_DEVICE ScheduleTables tables(std::byte* base, const Dims& d) const {
    ScheduleTables t;
    t.header = header.at(base);
    t.source_rank = source_rank.at(base);
    t.source_slot = source_slot.at(base);
    t.rows_per_expert = rows_per_expert.at(base);
    t.first_tile = first_tile.at(base);
    t.tile_expert = tile_expert.at(base);
    t.topk_experts = topk_experts.at(base);
    t.rank_tiles = rank_tiles.at(base);
    for (int pass = 0; pass < 2; ++pass) {
      t.token_order[pass] = token_order.at(base) + pass * d.max_tokens;
      t.sum_begin[pass] = sum_begin.at(base) + pass * (d.max_steps() + 1);
    }
    for (int pass = 0; pass < kNumPasses; ++pass) {
      for (int role = 0; role < kNumRoles; ++role) {
        t.stretches[pass][role] =
            stretches.at(base) + max_stretches(d.max_steps()) * (pass * kNumRoles + role);
      }
    }
    return t;
  }
};

/// Memory of one rank's forward context.
struct ContextLayout {
  Field<bfloat16> x;            ///< [ring,H]
  Field<bfloat16> gate;         ///< [ring,I]
  Field<bfloat16> up;           ///< [ring,I]
  Field<bfloat16> shared_gate;  ///< [Tmax,Is]
  Field<bfloat16> shared_up;    ///< [Tmax,Is]
  std::int64_t bytes = 0;

  template <class Self, class Visitor>
  MOK_HOST_DEVICE static constexpr void visit(Self& self, const Dims& d, Visitor&& visitor) {
    visitor("x rows [min(macrobatch,capacity),H]", self.x, d.ring_rows() * d.hidden);
    visitor("gate rows [min(macrobatch,capacity),I]", self.gate, d.ring_rows() * d.intermediate);
    visitor("up rows [min(macrobatch,capacity),I]", self.up, d.ring_rows() * d.intermediate);
    visitor("shared gate [Tmax,Is]", self.shared_gate, d.max_tokens * d.shared_intermediate);
    visitor("shared up [Tmax,Is]", self.shared_up, d.max_tokens * d.shared_intermediate);
  }
};

template <class Layout>
MOK_HOST_DEVICE constexpr Layout make_layout(const Dims& dims) {
  Layout layout;
  detail::Packer packer;
  Layout::visit(layout, dims, packer);
  layout.bytes = packer.bytes;
  return layout;
}

/// Bits of a watermark that count steps; the epoch stands above them, so that `>=` orders both. A rank has
/// less than 2^31 rows (checked), hence less than 2^25 steps; 2^38 epochs outlast any run.
inline constexpr int kWatermarkStepBits = 26;

MOK_HOST_DEVICE constexpr std::uint64_t watermark_value(std::uint64_t epoch, std::int64_t steps) {
  return (epoch << kWatermarkStepBits) | static_cast<std::uint64_t>(steps);
}

}  // namespace mok::program
