// SPDX-License-Identifier: Apache-2.0
// The sums over slots, bit for bit: k ascending in float32, dropped routes left out whatever their slots
// hold.
#include "ops/slot_sum/slot_sum.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

/// Fills the slots of a rank's routes; those of dropped routes stay NaN. The last slot of a token is large
/// and cancels the first: only so does the order of a float32 sum show in a bf16.
void fill_slots(OpFixture& fixture, int rank) {
  const RankView& view = fixture.view(rank);
  CallersMemory& mine = fixture.callers(rank);
  const std::int64_t h = view.dims.hidden;
  bfloat16* const slots = view.symmetric.slots.at(view.peers[rank]);
  for (std::size_t s = 0; s < mine.ids.size(); ++s) {
    if (mine.ids[s] < 0) continue;
    view.symmetric.weight_slots.at(view.peers[rank])[s] = fixture.values().next();
    bfloat16* const slot = slots + static_cast<std::int64_t>(s) * h;
    fixture.values().fill(std::span(slot, static_cast<std::size_t>(h)));
    if (s % OpShape::kTopk == 0) {
      for (std::int64_t c = 0; c < h; ++c) slot[c] = to_bfloat16(0x1p16f * to_float(slot[c]));
    }
    if (s % OpShape::kTopk == OpShape::kTopk - 1 && mine.ids[s + 1 - OpShape::kTopk] >= 0) {
      mine.router_weights[s] = mine.router_weights[s + 1 - OpShape::kTopk];
      const bfloat16* const first = slot - (OpShape::kTopk - 1) * h;
      for (std::int64_t c = 0; c < h; ++c) slot[c] = to_bfloat16(-to_float(first[c]));
    }
  }
}

void expect_sums(const OpShape& shape, Pass pass) {
  OpFixture fixture(shape, pass);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    RankView& view = fixture.view(rank);
    const CallersMemory& mine = fixture.callers(rank);
    const std::int64_t h = shape.hidden;
    fill_slots(fixture, rank);
    if (shape.shared_intermediate > 0) {
      fixture.values().fill(std::span(view.shared_out, static_cast<std::size_t>(mine.tokens * h)));
    }
    fixture.run<SlotSum>(rank, pass == Pass::forward ? Op::weighted_sum : Op::grad_sum);
    const bfloat16* const slots = view.symmetric.slots.at(view.peers[rank]);
    for (std::int64_t n = 0; n < mine.tokens * h; ++n) {
      float sum = shape.shared_intermediate > 0 ? to_float(view.shared_out[n]) : 0.0f;
      for (std::int64_t k = 0; k < OpShape::kTopk; ++k) {
        const std::int64_t slot = n / h * OpShape::kTopk + k;
        if (mine.ids[static_cast<std::size_t>(slot)] < 0) continue;
        const float value = to_float(slots[slot * h + n % h]);
        const float weight = mine.router_weights[static_cast<std::size_t>(slot)];
        sum = pass == Pass::forward ? std::fma(weight, value, sum) : sum + value;
      }
      ASSERT_EQ(to_bfloat16(sum).bits, mine.out[static_cast<std::size_t>(n)].bits);
    }
    if (pass == Pass::forward) continue;
    const float* const weight_slots = view.symmetric.weight_slots.at(view.peers[rank]);
    for (std::size_t s = 0; s < mine.ids.size(); ++s) {
      ASSERT_EQ(mine.ids[s] < 0 ? 0.0f : weight_slots[s], mine.d_router_weights[s]);
    }
  }
}

OpShape wide(std::int64_t hidden, std::int64_t shared_intermediate) {
  OpShape shape;
  shape.hidden = hidden;
  shape.intermediate = 64;
  shape.shared_intermediate = shared_intermediate;
  return shape;
}

TEST(SlotSum, WeighsSlotsOverKAscendingFromTheSharedOutput) {
  expect_sums(wide(320, 64), Pass::forward);
  expect_sums(wide(1088, 64), Pass::forward);  // more columns than are summed at a time
}
TEST(SlotSum, StartsFromZeroWithoutASharedExpert) {
  expect_sums(wide(320, 0), Pass::forward);
  expect_sums(wide(320, 0), Pass::backward);
}
TEST(SlotSum, AddsGradientsOverKAscendingAndHandsOutThoseOfRouterWeights) {
  expect_sums(wide(320, 64), Pass::backward);
  expect_sums(wide(1088, 64), Pass::backward);
}

/// The sum over slots is the transpose of dispatch: sum(rows * dispatch(x)) = sum(grad_sum(rows) * x). Small
/// integers, so that all of it is exact.
TEST(SlotSum, OfGradientsIsTheTransposeOfDispatch) {
  OpFixture fixture(wide(128, 0), Pass::backward);
  const auto integer = [&] { return static_cast<float>(fixture.values().below(7)) - 3.0f; };
  double over_rows = 0;
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    for (bfloat16& value : fixture.callers(rank).x) value = to_bfloat16(integer());
  }
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    const RankView& view = fixture.view(rank);
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
      if (fixture.is_padding(rank, row)) continue;
      const std::int32_t source = view.tables.source_rank[row];
      const std::int64_t slot = view.tables.source_slot[row];
      const bfloat16* const x = fixture.callers(source).x.data() + slot / OpShape::kTopk * 128;
      bfloat16* const to = view.symmetric.slots.at(view.peers[source]) + slot * 128;
      for (std::int64_t h = 0; h < 128; ++h) {
        to[h] = to_bfloat16(integer());
        over_rows += widen(to[h]) * widen(x[h]);
      }
    }
  }
  double over_tokens = 0;
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.run<SlotSum>(rank, Op::grad_sum);
    const CallersMemory& mine = fixture.callers(rank);
    for (std::size_t n = 0; n < mine.x.size(); ++n) over_tokens += widen(mine.out[n]) * widen(mine.x[n]);
  }
  EXPECT_EQ(over_rows, over_tokens);
}

}  // namespace
}  // namespace mok::ops
