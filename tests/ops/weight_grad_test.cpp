// SPDX-License-Identifier: Apache-2.0
// weight_grad against float64 and finite differences; cut by macrobatches against whole, bit for bit.
#include "ops/weight_grad/weight_grad.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

using program::Matrix;
using program::Op;
using program::Pass;

/// What weight_grad reads of a rank's rows, and where it writes.
struct Rows {
  std::vector<bfloat16> x, grad, d_gate, d_up, weighted_hidden;
};

Rows make_rows(OpFixture& fixture, int rank) {
  const program::Dims& dims = fixture.view(rank).dims;
  const auto make = [&](std::int64_t cols) {
    std::vector<bfloat16> rows(static_cast<std::size_t>(fixture.padded_rows(rank) * cols));
    fixture.fill_rows(rank, rows.data(), cols);
    return rows;
  };
  return {make(dims.hidden), make(dims.hidden), make(dims.intermediate), make(dims.intermediate),
          make(dims.intermediate)};
}

/// Copies the rows of a macrobatch into the ring.
void load(const Rows& rows, RankView& view, std::int64_t macrobatch) {
  const std::int64_t first = macrobatch * view.dims.macrobatch_tiles * program::kRowTile;
  const auto copy = [&](const std::vector<bfloat16>& from, bfloat16* to, std::int64_t cols) {
    const auto all = static_cast<std::int64_t>(from.size());
    const std::int64_t begin = first * cols;
    const std::int64_t end = std::min(all, begin + view.dims.ring_rows() * cols);
    std::copy(from.begin() + begin, from.begin() + end, to);
  };
  copy(rows.x, view.rows(macrobatch).x, view.dims.hidden);
  copy(rows.grad, view.grad_rows, view.dims.hidden);
  copy(rows.d_gate, view.d_gate, view.dims.intermediate);
  copy(rows.d_up, view.d_up, view.dims.intermediate);
  copy(rows.weighted_hidden, view.hidden, view.dims.intermediate);
}

/// Gradients of a rank's experts, gate, up and down, that start as `before`.
template <class Element>
struct GradientMemory {
  std::vector<Element> of[program::kNumMatrices];

  GradientMemory(RankView& view, std::int64_t experts, std::int64_t elements, Element before) {
    for (std::vector<Element>& gradient : of)
      gradient.assign(static_cast<std::size_t>(experts * elements), before);
    constexpr bool kMainGrad = std::is_same_v<Element, float>;
    Gradients& target = experts == 1 ? view.d_shared : view.d_routed;
    target = {{of[0].data(), elements, kMainGrad},
              {of[1].data(), elements, kMainGrad},
              {of[2].data(), elements, kMainGrad}};
  }
};

/// Runs all weight gradient tasks of a rank, macrobatch by macrobatch.
void run_routed(OpFixture& fixture, int rank, const Rows& rows) {
  RankView& view = fixture.view(rank);
  const std::vector<program::Task> tasks = fixture.tasks(rank, Op::weight_grad);
  const auto buffer = std::make_unique<cpu::TileBuffer>();
  const std::int64_t macrobatches =
      program::ceil_div(view.tables.header->num_tiles, view.dims.macrobatch_tiles);
  for (std::int64_t macrobatch = 0; macrobatch < macrobatches; ++macrobatch) {
    load(rows, view, macrobatch);
    for (const program::Task& task : tasks) {
      if (task.macrobatch == macrobatch) WeightGrad::run_cpu(view, task, *buffer);
    }
  }
}

bfloat16 nan_bf16() { return {0xFFFF}; }

/// a^T b over rows [begin, end): element (i, j).
Dot over_rows(const std::vector<bfloat16>& a, std::int64_t a_cols, std::int64_t i,
              const std::vector<bfloat16>& b, std::int64_t b_cols, std::int64_t j, std::int64_t begin,
              std::int64_t end) {
  return dot(a.data() + begin * a_cols + i, a_cols, b.data() + begin * b_cols + j, b_cols, end - begin);
}

TEST(WeightGrad, IsTheSumOverTheRowsOfItsExpert) {
  OpFixture fixture({}, Pass::backward);
  for (int rank = 0; rank < fixture.ranks(); ++rank) {
    RankView& view = fixture.view(rank);
    const std::int64_t h = view.dims.hidden;
    const std::int64_t w = view.dims.intermediate;
    const Rows rows = make_rows(fixture, rank);
    const GradientMemory<bfloat16> gradients(view, view.dims.local_experts(), h * w, nan_bf16());
    run_routed(fixture, rank, rows);
    for (std::int32_t e = 0; e < view.dims.local_experts(); ++e) {
      const std::int64_t begin = view.tables.first_tile[e] * program::kRowTile;
      const std::int64_t end = begin + view.tables.rows_per_expert[e];
      for (std::int64_t n = e; n < h * w; n += 41) {  // a prime: all places of a tile
        const auto at = static_cast<std::size_t>(e * h * w + n);
        ASSERT_TRUE(
            is_rounded(gradients.of[0][at], over_rows(rows.d_gate, w, n / h, rows.x, h, n % h, begin, end)));
        ASSERT_TRUE(
            is_rounded(gradients.of[1][at], over_rows(rows.d_up, w, n / h, rows.x, h, n % h, begin, end)));
        ASSERT_TRUE(is_rounded(gradients.of[2][at],
                               over_rows(rows.grad, h, n / w, rows.weighted_hidden, w, n % w, begin, end)));
      }
    }
  }
}

// The loss sum over rows of dG . (Wg x) has the derivative dWg by Wg.
TEST(WeightGrad, IsTheDerivativeOfTheLossByTheWeight) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(0);
  const std::int64_t h = view.dims.hidden;
  const std::int64_t w = view.dims.intermediate;
  const Rows rows = make_rows(fixture, 0);
  const GradientMemory<bfloat16> gradients(view, view.dims.local_experts(), h * w, nan_bf16());
  run_routed(fixture, 0, rows);
  const std::int64_t begin = view.tables.first_tile[0] * program::kRowTile;
  const std::int64_t end = begin + view.tables.rows_per_expert[0];
  for (std::int64_t n = 5; n < h * w; n += 4999) {
    const std::int64_t i = n / h;
    const auto loss = [&](double weight) {  // of unit i alone; the others do not depend on the weight
      double sum = 0;
      for (std::int64_t row = begin; row < end; ++row) {
        double gate = 0;
        for (std::int64_t c = 0; c < h; ++c) {
          const double wg = c == n % h ? weight : widen(view.routed.gate.of(0)[i * h + c]);
          gate += wg * widen(rows.x[static_cast<std::size_t>(row * h + c)]);
        }
        sum += widen(rows.d_gate[static_cast<std::size_t>(row * w + i)]) * gate;
      }
      return sum;
    };
    const double expected = derivative(loss, widen(view.routed.gate.of(0)[n]));
    const double error = over_rows(rows.d_gate, w, i, rows.x, h, n % h, begin, end).error() + 1e-8;
    ASSERT_LE(std::abs(widen(gradients.of[0][static_cast<std::size_t>(n)]) - expected),
              rounded_error(expected, error));
  }
}

template <class Element>
void expect_same_bits_cut_or_whole(std::int64_t macrobatch, Element before) {
  OpShape shape;
  OpFixture whole(shape, Pass::backward);
  shape.macrobatch = macrobatch;
  OpFixture cut(shape, Pass::backward);
  const std::int64_t elements = shape.hidden * shape.intermediate;
  for (int rank = 0; rank < whole.ranks(); ++rank) {
    const Rows rows = make_rows(whole, rank);
    const std::int64_t experts = whole.view(rank).dims.local_experts();
    const GradientMemory<Element> expected(whole.view(rank), experts, elements, before);
    const GradientMemory<Element> got(cut.view(rank), experts, elements, before);
    run_routed(whole, rank, rows);
    run_routed(cut, rank, rows);
    bool carried = false;
    for (const program::Task& task : cut.tasks(rank, Op::weight_grad)) carried = carried || !task.opens_sum;
    EXPECT_TRUE(carried) << "a test that cuts nothing";
    for (int matrix = 0; matrix < program::kNumMatrices; ++matrix) {
      EXPECT_EQ(0, std::memcmp(expected.of[matrix].data(), got.of[matrix].data(),
                               expected.of[matrix].size() * sizeof(Element)));
    }
  }
}

TEST(WeightGrad, HasTheSameBitsCutByMacrobatchesOrWhole) {
  expect_same_bits_cut_or_whole(128, nan_bf16());
  expect_same_bits_cut_or_whole(384, nan_bf16());
  expect_same_bits_cut_or_whole(128, 0.1f);
}

// An expert without rows gets +0, or its main_grad stays; one with rows has its f32 sum added once.
TEST(WeightGrad, OfAnExpertWithoutRowsIsZeroOrLeavesMainGradAlone) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(0);
  constexpr std::int32_t kEmpty = OpShape::kExpertWithoutRows;
  ASSERT_EQ(0, view.tables.rows_per_expert[kEmpty]);
  const std::int64_t elements = view.dims.hidden * view.dims.intermediate;
  const Rows rows = make_rows(fixture, 0);
  const GradientMemory<bfloat16> fresh(view, view.dims.local_experts(), elements, nan_bf16());
  run_routed(fixture, 0, rows);
  const GradientMemory<float> accumulated(view, view.dims.local_experts(), elements, -0.0f);
  run_routed(fixture, 0, rows);
  for (int matrix = 0; matrix < program::kNumMatrices; ++matrix) {
    for (std::int64_t n = kEmpty * elements; n < (kEmpty + 1) * elements; ++n) {
      const auto at = static_cast<std::size_t>(n);
      ASSERT_EQ(0, fresh.of[matrix][at].bits);
      ASSERT_TRUE(accumulated.of[matrix][at] == 0.0f && std::signbit(accumulated.of[matrix][at]));
    }
    for (std::size_t at = 0; at < static_cast<std::size_t>(elements); ++at) {
      ASSERT_EQ(fresh.of[matrix][at].bits, to_bfloat16(accumulated.of[matrix][at]).bits);
    }
  }
}

TEST(WeightGrad, OfTheSharedExpertSumsOverTheTokensOfItsRank) {
  OpFixture fixture({}, Pass::backward);
  RankView& view = fixture.view(1);
  const std::int64_t h = view.dims.hidden;
  const std::int64_t w = view.dims.shared_intermediate;
  const std::int64_t tokens = fixture.callers(1).tokens;
  for (bfloat16* activation : {view.shared_d_gate, view.shared_d_up, view.shared_hidden}) {
    fixture.values().fill(std::span(activation, static_cast<std::size_t>(tokens * w)));
  }
  const GradientMemory<bfloat16> gradients(view, 1, h * w, nan_bf16());
  fixture.run<WeightGrad>(1, Op::shared_weight_grad);
  for (std::int64_t n = 0; n < h * w; n += 17) {
    const auto at = static_cast<std::size_t>(n);
    ASSERT_TRUE(
        is_rounded(gradients.of[0][at], dot(view.shared_d_gate + n / h, w, view.x + n % h, h, tokens)));
    ASSERT_TRUE(is_rounded(gradients.of[1][at], dot(view.shared_d_up + n / h, w, view.x + n % h, h, tokens)));
    ASSERT_TRUE(is_rounded(gradients.of[2][at],
                           dot(view.grad_output + n / w, h, view.shared_hidden + n % w, w, tokens)));
  }
}

}  // namespace
}  // namespace mok::ops
