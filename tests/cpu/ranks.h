// SPDX-License-Identifier: Apache-2.0
// Control memory of a few ranks, without a layer: what waits, flags and watermarks work on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cpu/flags.h"
#include "cpu/launch.h"
#include "group/virtual_group.h"
#include "program/layout.h"

namespace mok::cpu::testing {

/// The sanitizers ask for small tests.
inline int rounds(int usual) {
  const char* const small = std::getenv("MOK_TEST_SMALL");
  return small != nullptr && *small == '1' ? std::max(1, usual / 10) : usual;
}

/// Ranks that have `tiles[r]` row tiles each, all flags and counters zero.
class Ranks {
 public:
  explicit Ranks(const std::vector<std::int64_t>& tiles, std::int64_t minibatch_tiles = 1,
                 std::int64_t hidden = 128)
      : tiles_(tiles),
        layout_(program::make_layout<program::SymmetricLayout>(dims(0, minibatch_tiles, hidden))) {
    const auto ranks = static_cast<int>(tiles.size());
    group_ = group::VirtualGroup(ranks, layout_.bytes);
    launch.epoch = 3;
    headers_.resize(tiles.size());
    controls_.resize(tiles.size());
    for (int rank = 0; rank < ranks; ++rank) {
      std::fill_n(group_.peers()[rank], layout_.bytes, std::byte{});
      const auto r = static_cast<std::size_t>(rank);
      RankLaunch mine;
      mine.view.dims = dims(rank, minibatch_tiles, hidden);
      mine.view.symmetric = layout_;
      mine.view.peers = group_.peers();
      headers_[r].num_tiles = tiles[r];
      mine.view.tables.header = &headers_[r];
      mine.view.tables.rank_tiles = tiles_.data();
      Control& control = controls_[r];
      const auto size = static_cast<std::size_t>(program::CounterLayout::make(mine.view.dims).size());
      control.counters.resize(size);
      control.spare_counters.resize(size);
      mine.control = {control.counters.data(), control.spare_counters.data(), control.tickets,
                      &control.published};
      launch.ranks.push_back(mine);
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(tiles_.size()); }
  /// A word of a rank's symmetric memory.
  [[nodiscard]] std::uint64_t* at(const program::Field<std::uint64_t>& field, int rank, int index = 0) const {
    return field.at(group_.peers()[rank]) + index;
  }
  [[nodiscard]] const program::SymmetricLayout& layout() const { return layout_; }
  /// Every rank is ready, as all see it.
  void arrive() {
    for (int rank = 0; rank < size(); ++rank) arrive(rank);
  }
  void arrive(int rank) {
    for (int peer = 0; peer < size(); ++peer) raise_release(at(layout_.ready, peer, rank), launch.epoch);
  }

  Launch launch;

 private:
  struct Control {
    std::vector<std::uint32_t> counters, spare_counters;
    std::uint64_t tickets[program::kNumRoles] = {};
    std::uint32_t published = 0;
  };

  [[nodiscard]] program::Dims dims(int rank, std::int64_t minibatch_tiles, std::int64_t hidden) const {
    program::Dims result;
    result.ranks = static_cast<std::int32_t>(tiles_.size());
    result.rank = rank;
    result.experts = result.ranks;
    result.max_tokens = program::kRowTile;
    result.hidden = hidden;
    result.intermediate = 128;
    result.routed_capacity = program::kRowTile * *std::max_element(tiles_.begin(), tiles_.end());
    result.minibatch_tiles = minibatch_tiles;
    result.macrobatch_tiles = minibatch_tiles * 1024;
    return result;
  }

  std::vector<std::int64_t> tiles_;
  program::SymmetricLayout layout_;
  group::VirtualGroup group_;
  std::vector<program::ScheduleHeader> headers_;
  std::vector<Control> controls_;
};

}  // namespace mok::cpu::testing
