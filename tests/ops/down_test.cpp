// SPDX-License-Identifier: Apache-2.0
// down against float64: each row is the rounded product, in its slot at its source rank and nowhere else.
#include "ops/down/down.h"

#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

TEST(Down, PutsEveryRowUnweightedIntoItsSlot) {
  OpFixture fixture({}, Pass::forward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.fill_rows(rank, fixture.view(rank).hidden, fixture.view(rank).dims.intermediate);
    fixture.run<Down>(rank, Op::down);
  }
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    const RankView& view = fixture.view(rank);
    const std::int64_t width = view.dims.intermediate;
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); row += 5) {
      if (fixture.is_padding(rank, row)) continue;
      const bfloat16* const slot = view.symmetric.slots.at(view.peers[view.tables.source_rank[row]]) +
                                   view.tables.source_slot[row] * view.dims.hidden;
      const bfloat16* const weight = view.routed.down.of(fixture.expert_of(rank, row));
      for (std::int64_t h = 0; h < view.dims.hidden; ++h) {
        ASSERT_TRUE(is_rounded(slot[h], dot(view.hidden + row * width, 1, weight + h * width, 1, width)));
      }
    }
  }
}

// Padding rows are never pushed: slots of dropped routes and of tokens that a rank does not bring keep what
// they held.
TEST(Down, LeavesSlotsOfDroppedRoutesAlone) {
  OpFixture fixture({}, Pass::forward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.fill_rows(rank, fixture.view(rank).hidden, fixture.view(rank).dims.intermediate);
    fixture.run<Down>(rank, Op::down);
  }
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    const RankView& view = fixture.view(rank);
    const std::vector<std::int32_t>& ids = fixture.callers(rank).ids;
    const bfloat16* const slots = view.symmetric.slots.at(view.peers[rank]);
    for (std::int64_t slot = 0; slot < view.dims.slots(); ++slot) {
      const auto s = static_cast<std::size_t>(slot);
      const bool written = s < ids.size() && ids[s] >= 0;
      for (std::int64_t h = 0; h < view.dims.hidden; ++h) {
        ASSERT_NE(written, is_nan(slots[slot * view.dims.hidden + h]))
            << "slot " << slot << " of rank " << rank;
      }
    }
  }
}

TEST(Down, OfTheSharedExpertStaysWithItsTokens) {
  OpFixture fixture({}, Pass::forward);
  RankView& view = fixture.view(1);
  const std::int64_t width = view.dims.shared_intermediate;
  const std::int64_t tokens = fixture.callers(1).tokens;
  fixture.values().fill(std::span(view.shared_hidden, static_cast<std::size_t>(tokens * width)));
  fixture.run<Down>(1, Op::shared_down);
  for (std::int64_t token = 0; token < view.dims.max_tokens; ++token) {
    for (std::int64_t h = 0; h < view.dims.hidden; ++h) {
      const bfloat16 got = view.shared_out[token * view.dims.hidden + h];
      if (token >= tokens) {
        ASSERT_TRUE(is_nan(got));
        continue;
      }
      ASSERT_TRUE(is_rounded(
          got, dot(view.shared_hidden + token * width, 1, view.shared.down.of(0) + h * width, 1, width)));
    }
  }
}

}  // namespace
}  // namespace mok::ops
