// SPDX-License-Identifier: Apache-2.0
// gate_up against float64: G and U within their rounding, Hd bit for bit from the rounded G and U.
#include "ops/gate_up/gate_up.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

struct Rows {
  const bfloat16 *x, *gate_weight, *up_weight;
  const bfloat16 *gate, *up, *hidden;
  std::int64_t width;
};

/// Row `row`, whose expert's weights are given, of what gate_up wrote.
void expect_row(const RankView& view, const Rows& rows, std::int64_t row, bool hidden_too) {
  const std::int64_t h = view.dims.hidden;
  for (std::int64_t i = 0; i < rows.width; ++i) {
    const std::int64_t at = row * rows.width + i;
    ASSERT_TRUE(is_rounded(rows.gate[at], dot(rows.x + row * h, 1, rows.gate_weight + i * h, 1, h)));
    ASSERT_TRUE(is_rounded(rows.up[at], dot(rows.x + row * h, 1, rows.up_weight + i * h, 1, h)));
    if (!hidden_too) continue;
    // The library's loop is vectorised, this call is not: equal bits show that this makes no difference.
    ASSERT_EQ(swiglu(rows.gate[at], rows.up[at], view.limit).bits, rows.hidden[at].bits);
  }
}

void expect_routed(OpFixture& fixture, int rank, bool hidden_too) {
  const RankView& view = fixture.view(rank);
  const std::int64_t width = view.dims.intermediate;
  for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
    if (!fixture.is_padding(rank, row)) {
      const std::int32_t expert = fixture.expert_of(rank, row);
      if (row % 7 != 0) continue;  // every seventh row says enough
      expect_row(view,
                 {view.saved.x, view.routed.gate.of(expert), view.routed.up.of(expert), view.saved.gate,
                  view.saved.up, view.hidden, width},
                 row, hidden_too);
      continue;
    }
    for (std::int64_t at = row * width; at < (row + 1) * width; ++at) {
      ASSERT_EQ(0, view.saved.gate[at].bits) << "padding";
      ASSERT_EQ(0, view.saved.up[at].bits) << "padding";
      if (hidden_too) {
        ASSERT_EQ(0, view.hidden[at].bits) << "padding";
      }
    }
  }
}

TEST(GateUp, OfRoutedRowsIsTheProductRounded) {
  OpShape shape;
  shape.limit = 2.0f;
  OpFixture fixture(shape, Pass::forward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.fill_rows(rank, fixture.view(rank).saved.x, shape.hidden);
    fixture.run<GateUp>(rank, Op::gate_up);
    expect_routed(fixture, rank, true);
  }
}

TEST(GateUp, OfTheSharedExpertIsTheProductRounded) {
  OpFixture fixture({}, Pass::forward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    fixture.run<GateUp>(rank, Op::shared_gate_up);
    const RankView& view = fixture.view(rank);
    for (std::int64_t token = 0; token < fixture.callers(rank).tokens; ++token) {
      expect_row(view,
                 {view.x, view.shared.gate.of(0), view.shared.up.of(0), view.shared_gate, view.shared_up,
                  view.shared_hidden, view.dims.shared_intermediate},
                 token, true);
    }
  }
}

// Recompute fills a context; nobody reads Hd, and its buffer may belong to another pass.
TEST(GateUp, LeavesHiddenAloneOutsideForward) {
  OpFixture fixture({}, Pass::recompute);
  fixture.fill_rows(0, fixture.view(0).saved.x, fixture.view(0).dims.hidden);
  fixture.run<GateUp>(0, Op::gate_up);
  expect_routed(fixture, 0, false);
  const RankView& view = fixture.view(0);
  for (std::int64_t i = 0; i < fixture.padded_rows(0) * view.dims.intermediate; ++i) {
    ASSERT_TRUE(is_nan(view.hidden[i]));
  }
}

}  // namespace
}  // namespace mok::ops
