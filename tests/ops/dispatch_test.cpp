// SPDX-License-Identifier: Apache-2.0
// dispatch: every row of the ring is its token's, bit for bit, and padding is zero, whatever the ring held.
#include "ops/dispatch/dispatch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "cpu/executor.h"
#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

bool is_zero_row(const bfloat16* row, std::int64_t cols) {
  return std::all_of(row, row + cols, [](bfloat16 value) { return value.bits == 0; });
}

/// Whether row `row` of a rank is the row of its token in what the source rank brought.
bool is_tokens_row(OpFixture& fixture, int rank, std::int64_t row, const bfloat16* got, bool grad) {
  const RankView& view = fixture.view(rank);
  if (fixture.is_padding(rank, row)) return is_zero_row(got, view.dims.hidden);
  const CallersMemory& source = fixture.callers(view.tables.source_rank[row]);
  const std::int64_t token = view.tables.source_slot[row] / view.dims.topk;
  const bfloat16* const from = (grad ? source.grad_output : source.x).data() + token * view.dims.hidden;
  return std::memcmp(got, from, static_cast<std::size_t>(view.dims.hidden) * sizeof(bfloat16)) == 0;
}

void stage_all(OpFixture& fixture) {
  for (int rank = 0; rank < fixture.ranks(); ++rank) cpu::stage_inputs(fixture.view(rank));
}

TEST(Dispatch, BringsEveryRowOfXFromItsSourceRank) {
  for (const Pass pass : {Pass::forward, Pass::recompute}) {
    OpFixture fixture({}, pass);
    stage_all(fixture);
    for (int rank = 0; rank < fixture.ranks(); ++rank) {
      fixture.run<Dispatch>(rank, Op::dispatch_x);
      const RankView& view = fixture.view(rank);
      for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
        ASSERT_TRUE(is_tokens_row(fixture, rank, row, view.saved.x + row * view.dims.hidden, false)) << row;
      }
    }
  }
}

TEST(Dispatch, BringsGradientsAndRouterWeightsUnscaled) {
  OpFixture fixture({}, Pass::backward);
  stage_all(fixture);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.run<Dispatch>(rank, Op::dispatch_grad);
    const RankView& view = fixture.view(rank);
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
      ASSERT_TRUE(is_tokens_row(fixture, rank, row, view.grad_rows + row * view.dims.hidden, true)) << row;
      const bool padding = fixture.is_padding(rank, row);
      const float weight = padding
                               ? 0.0f
                               : fixture.callers(view.tables.source_rank[row])
                                     .router_weights[static_cast<std::size_t>(view.tables.source_slot[row])];
      ASSERT_EQ(weight, view.row_weights[row]);
    }
  }
}

// Backward pulls x again for the macrobatches that the context does not hold, and leaves the context alone.
TEST(Dispatch, ReplaysOnlyWhatTheContextDoesNotHold) {
  OpShape shape;
  shape.tokens = {300, 200};
  shape.macrobatch = 2 * program::kRowTile;
  OpFixture fixture(shape, Pass::backward);
  stage_all(fixture);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    const RankView& view = fixture.view(rank);
    const std::int64_t tiles = view.tables.header->num_tiles;
    ASSERT_GT(tiles, 3);
    for (const program::Task& task : fixture.tasks(rank, Op::dispatch_x)) {
      ASSERT_GE(task.macrobatch, 1);
    }
    ASSERT_EQ(static_cast<std::size_t>(tiles - 2), fixture.tasks(rank, Op::dispatch_x).size());
    fixture.run<Dispatch>(rank, Op::dispatch_x);
    // What stands in the ring at the end is the last tile of each of its places.
    for (std::int64_t tile = std::max<std::int64_t>(2, tiles - 2); tile < tiles; ++tile) {
      for (std::int64_t r = 0; r < program::kRowTile; ++r) {
        const std::int64_t ring_row = tile % 2 * program::kRowTile + r;
        ASSERT_TRUE(is_tokens_row(fixture, rank, tile * program::kRowTile + r,
                                  view.replay.x + ring_row * view.dims.hidden, false));
      }
    }
    for (std::int64_t i = 0; i < 2 * program::kRowTile * view.dims.hidden; ++i)
      ASSERT_TRUE(is_nan(view.saved.x[i]));
  }
}

}  // namespace
}  // namespace mok::ops
