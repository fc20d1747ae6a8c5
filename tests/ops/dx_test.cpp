// SPDX-License-Identifier: Apache-2.0
// dx against float64 and finite differences; router weight gradients bit for bit.
#include "ops/dx/dx.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/tile_gemm.h"
#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

struct Row {
  const bfloat16 *d_gate, *d_up, *gate_weight, *up_weight;
  const bfloat16* d_x;  ///< where dx put it
  std::int64_t hidden, width;
};

/// dG Wg + dU Wu.
void expect_product(const Row& row) {
  for (std::int64_t h = 0; h < row.hidden; ++h) {
    Dot expected = dot(row.d_gate, 1, row.gate_weight + h, row.hidden, row.width);
    for (std::int64_t i = 0; i < row.width; ++i) {
      expected.add(widen(row.d_up[i]), widen(row.up_weight[i * row.hidden + h]));
    }
    ASSERT_TRUE(is_rounded(row.d_x[h], expected)) << h;
  }
}

/// The loss dG . G(x) + dU . U(x) at x, its derivative by x[h] being dx[h].
double loss(const Row& row, const std::vector<double>& x) {
  double sum = 0;
  for (std::int64_t i = 0; i < row.width; ++i) {
    for (std::int64_t h = 0; h < row.hidden; ++h) {
      const auto at = static_cast<std::size_t>(h);
      sum += widen(row.d_gate[i]) * widen(row.gate_weight[i * row.hidden + h]) * x[at];
      sum += widen(row.d_up[i]) * widen(row.up_weight[i * row.hidden + h]) * x[at];
    }
  }
  return sum;
}

void expect_derivative(const Row& row) {
  std::vector<double> x(static_cast<std::size_t>(row.hidden), 0.5);
  for (std::int64_t h = 0; h < row.hidden; h += 37) {
    const auto at = static_cast<std::size_t>(h);
    const double expected = derivative(
        [&](double v) {
          std::vector<double> moved = x;
          moved[at] = v;
          return loss(row, moved);
        },
        x[at]);
    Dot terms = dot(row.d_gate, 1, row.gate_weight + h, row.hidden, row.width);
    for (std::int64_t i = 0; i < row.width; ++i)
      terms.add(widen(row.d_up[i]), widen(row.up_weight[i * row.hidden + h]));
    const double differences = 1e-9 * static_cast<double>(row.hidden);
    ASSERT_LE(std::abs(widen(row.d_x[h]) - expected), rounded_error(expected, terms.error() + differences));
  }
}

void run_routed(OpFixture& fixture) {
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    RankView& view = fixture.view(rank);
    fixture.fill_rows(rank, view.d_gate, view.dims.intermediate);
    fixture.fill_rows(rank, view.d_up, view.dims.intermediate);
    fixture.values().fill(std::span(
        view.weight_partials, static_cast<std::size_t>(fixture.padded_rows(rank) * view.dims.partials())));
    fixture.run<Dx>(rank, Op::dx);
  }
}

Row routed_row(OpFixture& fixture, int rank, std::int64_t row) {
  const RankView& view = fixture.view(rank);
  const std::int32_t expert = fixture.expert_of(rank, row);
  const bfloat16* const slot = view.symmetric.slots.at(view.peers[view.tables.source_rank[row]]) +
                               view.tables.source_slot[row] * view.dims.hidden;
  return {view.d_gate + row * view.dims.intermediate,
          view.d_up + row * view.dims.intermediate,
          view.routed.gate.of(expert),
          view.routed.up.of(expert),
          slot,
          view.dims.hidden,
          view.dims.intermediate};
}

TEST(Dx, PutsTheGradientOfXIntoTheSlotOfItsRoute) {
  OpFixture fixture({}, Pass::backward);
  run_routed(fixture);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); row += 9) {
      if (!fixture.is_padding(rank, row)) expect_product(routed_row(fixture, rank, row));
    }
    expect_derivative(routed_row(fixture, rank, 3));
  }
}

// One float32 accumulator: the gate part in steps of 64, then the up part, rounded once. Here the up part is
// the gate part backwards and negated, so that nothing is left but the errors of that order.
TEST(Dx, AddsTheGatePartBeforeTheUpPart) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(0);
  const std::int64_t h = view.dims.hidden;
  const std::int64_t w = view.dims.intermediate;
  fixture.fill_rows(0, view.d_gate, w);
  fixture.values().fill(std::span(view.weight_partials,
                                  static_cast<std::size_t>(fixture.padded_rows(0) * view.dims.partials())));
  std::vector<bfloat16> up_weight(static_cast<std::size_t>(w * h));
  for (std::int64_t i = 0; i < w; ++i) {
    const bfloat16* const mirrored = view.routed.gate.of(0) + (w - 1 - i) * h;
    std::copy_n(mirrored, h, up_weight.data() + i * h);
  }
  view.routed.gate.expert_stride = 0;
  view.routed.up = {up_weight.data(), 0};
  for (std::int64_t row = 0; row < fixture.padded_rows(0); ++row) {
    for (std::int64_t i = 0; i < w; ++i) {
      view.d_up[row * w + i] = to_bfloat16(-to_float(view.d_gate[row * w + w - 1 - i]));
    }
  }
  fixture.run<Dx>(0, Op::dx);

  const Row row = routed_row(fixture, 0, 17);
  const auto buffer = std::make_unique<cpu::TileBuffer>();
  buffer->clear(0);
  constexpr std::int64_t kColumn = 128;  // the second tile of columns
  ASSERT_GE(h, kColumn + cpu::kTile);
  for (const bool is_up : {false, true}) {
    const bfloat16* const gradient = is_up ? row.d_up : row.d_gate;
    const bfloat16* const weight = (is_up ? row.up_weight : row.gate_weight) + kColumn;
    for (std::int64_t i = 0; i < w; i += cpu::kStep) {
      cpu::load_tile<cpu::kStep>(buffer->a, cpu::kTile, gradient + i, w, 1, cpu::kStep);
      cpu::load_tile<cpu::kTile>(buffer->b, cpu::kStep, weight + i * h, h, cpu::kStep, cpu::kTile);
      cpu::tile_gemm(buffer->acc[0], buffer->a, cpu::Layout::rows_by_step, buffer->b,
                     cpu::Layout::step_by_rows);
    }
  }
  for (std::int64_t c = 0; c < cpu::kTile; ++c) {
    ASSERT_EQ(to_bfloat16(buffer->acc[0][c]).bits, row.d_x[kColumn + c].bits);
  }
}

TEST(Dx, SumsThePartialsOfRouterWeightGradientsInAscendingOrder) {
  OpFixture fixture({}, Pass::backward);
  run_routed(fixture);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    const RankView& view = fixture.view(rank);
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
      if (fixture.is_padding(rank, row)) continue;
      float expected = 0.0f;
      for (std::int64_t part = 0; part < view.dims.partials(); ++part) {
        expected += view.weight_partials[row * view.dims.partials() + part];
      }
      const float* const slots = view.symmetric.weight_slots.at(view.peers[view.tables.source_rank[row]]);
      ASSERT_EQ(expected, slots[view.tables.source_slot[row]]);
    }
  }
}

TEST(Dx, OfTheSharedExpertStaysWithItsTokens) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(1);
  const std::int64_t width = view.dims.shared_intermediate;
  const std::int64_t tokens = fixture.callers(1).tokens;
  fixture.values().fill(std::span(view.shared_d_gate, static_cast<std::size_t>(tokens * width)));
  fixture.values().fill(std::span(view.shared_d_up, static_cast<std::size_t>(tokens * width)));
  fixture.run<Dx>(1, Op::shared_dx);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Row row{view.shared_d_gate + token * width,
                  view.shared_d_up + token * width,
                  view.shared.gate.of(0),
                  view.shared.up.of(0),
                  view.shared_out + token * view.dims.hidden,
                  view.dims.hidden,
                  width};
    expect_product(row);
    if (token % 50 == 0) expect_derivative(row);
  }
}

}  // namespace
}  // namespace mok::ops
