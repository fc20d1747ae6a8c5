// SPDX-License-Identifier: Apache-2.0
// Readiness counters of one rank: who signals, who waits. All are 32-bit, start a pass at zero and only grow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/dims.h"

namespace mok::program {

enum class Counter : std::uint8_t {
  x_arrived,            ///< [row tile] 1 when dispatch_x has published it
  grad_arrived,         ///< [row tile] 1 when dispatch_grad has published it
  gate_up_done,         ///< [row tile] column tiles done
  down_done,            ///< [row tile] column tiles done
  dhidden_done,         ///< [row tile] column tiles done
  dx_done,              ///< [row tile] column tiles done
  weight_grad_done,     ///< [segment] tiles done, over the three matrices; see segment_index
  shared_gate_up_done,  ///< [token tile]
  shared_out_done,      ///< [token tile] shared_down in forward, shared_dx in backward
  shared_dhidden_done,  ///< [token tile]
  step_done,            ///< [step] tasks done that push to slots: down or dx
  count
};

constexpr const char* name(Counter counter) {
  constexpr const char* kNames[] = {
      "x_arrived", "grad_arrived",     "gate_up_done",        "down_done",       "dhidden_done",
      "dx_done",   "weight_grad_done", "shared_gate_up_done", "shared_out_done", "shared_dhidden_done",
      "step_done"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<std::size_t>(Counter::count));
  return kNames[static_cast<int>(counter)];
}

/// A segment is (local expert, macrobatch) with rows. Along the rows both numbers only grow, and one of them
/// at every step, so that their sum names a segment: no table, and at most local_experts + max_macrobatches
/// counters.
MOK_HOST_DEVICE constexpr std::int64_t segment_index(std::int64_t expert, std::int64_t macrobatch) {
  return expert + macrobatch;
}

/// Where each kind of counter begins in a set.
struct CounterLayout {
  std::int64_t begin[static_cast<int>(Counter::count) + 1] = {};

  MOK_HOST_DEVICE static constexpr CounterLayout make(const Dims& dims) {
    CounterLayout layout;
    std::int64_t next = 0;
    for (int c = 0; c < static_cast<int>(Counter::count); ++c) {
      layout.begin[c] = next;
      next += count_of(dims, static_cast<Counter>(c));
    }
    layout.begin[static_cast<int>(Counter::count)] = next;
    return layout;
  }

  MOK_HOST_DEVICE constexpr std::int64_t at(Counter counter, std::int64_t i) const {
    return begin[static_cast<int>(counter)] + i;
  }
  MOK_HOST_DEVICE constexpr std::int64_t size() const { return begin[static_cast<int>(Counter::count)]; }

  /// The kind that an index belongs to, for messages.
  constexpr Counter kind_of(std::int64_t index) const {
    int c = 0;
    while (index >= begin[c + 1]) ++c;
    return static_cast<Counter>(c);
  }

 private:
  MOK_HOST_DEVICE static constexpr std::int64_t count_of(const Dims& dims, Counter counter) {
    switch (counter) {
      case Counter::weight_grad_done:
        return dims.local_experts() + dims.max_macrobatches();
      case Counter::shared_gate_up_done:
      case Counter::shared_out_done:
      case Counter::shared_dhidden_done:
        return dims.shared_intermediate > 0 ? dims.max_token_tiles() : 0;
      case Counter::step_done:
        return dims.max_steps();
      default:
        return dims.capacity_tiles();
    }
  }
};

}  // namespace mok::program
