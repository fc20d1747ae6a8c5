// SPDX-License-Identifier: Apache-2.0
// dhidden against finite differences of the forward formulas in float64.
//
// The loss of a row is w * dO . y with y = Wd hd(G, U): its derivatives by G, U and w are what dhidden gives.
#include "ops/dhidden/dhidden.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Op;
using program::Pass;

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }

/// One row: its operands and what dhidden made of them.
struct Row {
  const bfloat16 *grad, *gate, *up, *weight;  ///< weight: the expert's Wd
  const bfloat16 *d_gate, *d_up, *weighted_hidden;
  double router_weight;
  std::int64_t hidden, width;

  /// dHraw[i] = dO . Wd[:, i].
  [[nodiscard]] Dot d_hidden(std::int64_t i) const { return dot(grad, 1, weight + i, width, hidden); }
};

// Float32 roundings of the elementwise formulas, relative to their terms.
constexpr double kElementwise = 0x1p-20;
// What the finite differences are off by, relative to the loss.
constexpr double kDifferences = 1e-9;

void expect_gradients(const Row& row) {
  for (std::int64_t i = 0; i < row.width; ++i) {
    const Dot d_hidden = row.d_hidden(i);
    const double g = widen(row.gate[i]);
    const double u = widen(row.up[i]);
    const double scale = row.router_weight * d_hidden.value;
    const double d_gate = derivative([&](double v) { return scale * silu_of(v) * u; }, g);
    const double d_up = derivative([&](double v) { return scale * silu_of(g) * v; }, u);
    const double s = sigmoid_of(g);
    const double slope_terms = s + std::abs(g) * s * (1 - s);
    const double uncertain =
        std::abs(row.router_weight) * d_hidden.error() + (kElementwise + kDifferences) * std::abs(scale);
    ASSERT_LE(std::abs(widen(row.d_gate[i]) - d_gate),
              rounded_error(d_gate, uncertain * std::abs(u) * slope_terms));
    ASSERT_LE(std::abs(widen(row.d_up[i]) - d_up), rounded_error(d_up, uncertain * std::abs(silu_of(g))));
  }
}

void expect_weighted_hidden(const Row& row, SwigluLimit limit) {
  for (std::int64_t i = 0; i < row.width; ++i) {
    const float hidden = to_float(swiglu(row.gate[i], row.up[i], limit));
    ASSERT_EQ(to_bfloat16(static_cast<float>(row.router_weight) * hidden).bits, row.weighted_hidden[i].bits);
  }
}

Row routed_row(OpFixture& fixture, int rank, std::int64_t row) {
  const RankView& view = fixture.view(rank);
  const std::int64_t width = view.dims.intermediate;
  const std::int64_t at = row * width;
  return {view.grad_rows + row * view.dims.hidden,
          view.saved.gate + at,
          view.saved.up + at,
          view.routed.down.of(fixture.expert_of(rank, row)),
          view.d_gate + at,
          view.d_up + at,
          view.hidden + at,
          static_cast<double>(view.row_weights[row]),
          view.dims.hidden,
          width};
}

void run_routed(OpFixture& fixture, int rank) {
  RankView& view = fixture.view(rank);
  fixture.fill_rows(rank, view.grad_rows, view.dims.hidden);
  fixture.fill_rows(rank, view.saved.gate, view.dims.intermediate);
  fixture.fill_rows(rank, view.saved.up, view.dims.intermediate);
  for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
    view.row_weights[row] = fixture.is_padding(rank, row) ? 0.0f : fixture.values().next();
  }
  fixture.run<DHidden>(rank, Op::dhidden);
}

TEST(DHidden, GivesTheDerivativesByGateAndUp) {
  OpFixture fixture({}, Pass::backward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    run_routed(fixture, rank);
    for (std::int64_t row = 0; row < fixture.padded_rows(rank); ++row) {
      const Row mine = routed_row(fixture, rank, row);
      if (fixture.is_padding(rank, row)) {
        for (std::int64_t i = 0; i < mine.width; ++i) {
          ASSERT_EQ(0, mine.d_gate[i].bits | mine.d_up[i].bits | mine.weighted_hidden[i].bits) << "padding";
        }
        continue;
      }
      expect_weighted_hidden(mine, {});
      if (row % 13 == 0) expect_gradients(mine);
    }
  }
}

// The derivative by w is dO . y, y from the rounded Hd, cut into 64 columns at a time.
TEST(DHidden, GivesPartialsOfTheDerivativeByTheRouterWeight) {
  OpFixture fixture({}, Pass::backward);
  run_routed(fixture, 1);
  const RankView& view = fixture.view(1);
  for (std::int64_t row = 0; row < fixture.padded_rows(1); row += 9) {
    if (fixture.is_padding(1, row)) continue;
    const Row mine = routed_row(fixture, 1, row);
    for (std::int64_t part = 0; part < view.dims.partials(); ++part) {
      Dot expected;
      double operands = 0;
      for (std::int64_t i = part * 64; i < (part + 1) * 64; ++i) {
        const Dot d_hidden = mine.d_hidden(i);
        const double hidden = widen(swiglu(mine.gate[i], mine.up[i], view.limit));
        expected.add(d_hidden.value, hidden);
        operands += d_hidden.error() * std::abs(hidden);
      }
      const double got = static_cast<double>(view.weight_partials[row * view.dims.partials() + part]);
      ASSERT_LE(std::abs(got - expected.value), expected.error() + operands);
    }
  }
}

TEST(DHidden, OfTheSharedExpertHasTheWeightOne) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(0);
  const std::int64_t width = view.dims.shared_intermediate;
  const std::int64_t tokens = fixture.callers(0).tokens;
  fixture.values().fill(std::span(view.shared_gate, static_cast<std::size_t>(tokens * width)));
  fixture.values().fill(std::span(view.shared_up, static_cast<std::size_t>(tokens * width)));
  fixture.run<DHidden>(0, Op::shared_dhidden);
  for (std::int64_t token = 0; token < tokens; token += 7) {
    const std::int64_t at = token * width;
    const Row row{view.grad_output + token * view.dims.hidden,
                  view.shared_gate + at,
                  view.shared_up + at,
                  view.shared.down.of(0),
                  view.shared_d_gate + at,
                  view.shared_d_up + at,
                  view.shared_hidden + at,
                  1.0,
                  view.dims.hidden,
                  width};
    expect_gradients(row);
    expect_weighted_hidden(row, {});
  }
  for (std::int64_t i = 0; i < fixture.padded_rows(0) * view.dims.partials(); ++i) {
    ASSERT_TRUE(std::isnan(view.weight_partials[i])) << "partials belong to routed rows";
  }
}

// The clamp stops gradients by selection, and the loop over columns gives the bits of the function on one of
// them.
TEST(DHidden, StopsInfiniteGradientsWhereTheLimitClamps) {
  OpShape shape;
  shape.limit = 0.5f;
  OpFixture fixture(shape, Pass::backward);
  run_routed(fixture, 0);
  RankView& view = fixture.view(0);
  for (std::int64_t row = 0; row < fixture.padded_rows(0); ++row) {
    if (!fixture.is_padding(0, row))
      view.grad_rows[row * shape.hidden] = to_bfloat16(std::numeric_limits<float>::infinity());
  }
  fixture.run<DHidden>(0, Op::dhidden);
  std::int64_t stopped = 0;
  for (std::int64_t at = 0; at < fixture.padded_rows(0) * shape.intermediate; ++at) {
    if (fixture.is_padding(0, at / shape.intermediate)) continue;
    const bool gate_clamps = to_float(view.saved.gate[at]) > shape.limit;
    const bool up_clamps = std::abs(to_float(view.saved.up[at])) > shape.limit;
    ASSERT_EQ(gate_clamps, view.d_gate[at].bits == 0);
    ASSERT_EQ(up_clamps, view.d_up[at].bits == 0);
    if (gate_clamps || up_clamps) ++stopped;
  }
  EXPECT_GT(stopped, 1000);
}

// With Wd = 1 dHraw is dO, so the bits are known: those of the function on one element, whatever the loop
// over columns is compiled to.
TEST(DHidden, GivesTheBitsOfTheFunctionOnOneElement) {
  OpShape shape;
  shape.limit = 1.0f;
  OpFixture fixture(shape, Pass::backward);
  RankView& view = fixture.view(0);
  std::vector<bfloat16> identity(static_cast<std::size_t>(shape.hidden * shape.intermediate));
  for (std::int64_t i = 0; i < shape.intermediate; ++i) {
    identity[static_cast<std::size_t>(i * shape.intermediate + i)] = to_bfloat16(1.0f);
  }
  view.routed.down = {identity.data(), 0};
  run_routed(fixture, 0);
  for (std::int64_t row = 0; row < fixture.padded_rows(0); ++row) {
    if (fixture.is_padding(0, row)) continue;
    const Row mine = routed_row(fixture, 0, row);
    for (std::int64_t i = 0; i < mine.width; ++i) {
      const float d_hidden = view.row_weights[row] * to_float(mine.grad[i]);
      const SwigluGradient expected = swiglu_gradient(d_hidden, mine.gate[i], mine.up[i], view.limit);
      ASSERT_EQ(expected.d_gate.bits, mine.d_gate[i].bits);
      ASSERT_EQ(expected.d_up.bits, mine.d_up[i].bits);
    }
    expect_weighted_hidden(mine, view.limit);
  }
}

}  // namespace
}  // namespace mok::ops
