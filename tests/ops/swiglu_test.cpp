// SPDX-License-Identifier: Apache-2.0
// SwiGLU and its gradient on one element against float64, over every bf16 gate.
//
// What may differ: rounding to bf16 (2^-8 of the value), and a handful of float32 roundings before it
// (exp 1.1 ulp, the others half of one each), for which 2^-20 stands. It is a relative bound, so a sigmoid
// that is only right to an absolute error fails in the tail.
#include "ops/swiglu/swiglu.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <gtest/gtest.h>

#include "ops/op_fixture.h"

namespace mok::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kRelative = 0x1p-8 + 0x1p-20;
/// Half of bf16's smallest subnormal.
constexpr double kSmallest = 0x1p-134;
/// Below this gate e^-G nears what a float can hold, and the sigmoid's own digits run out.
constexpr float kLastGate = -87.0f;

constexpr SwigluLimit kNoLimit{};

double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }

/// Calls visit(gate) for every finite bf16 from `low` to `high`.
template <class Visit>
void for_each_gate(float low, float high, Visit visit) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bfloat16 gate{static_cast<std::uint16_t>(bits)};
    const float value = to_float(gate);
    if (std::isfinite(value) && value >= low && value <= high) visit(gate);
  }
}

bool is_zero(bfloat16 value) { return value.bits == 0; }
bool same_or_both_nan(bfloat16 a, bfloat16 b) {
  return a.bits == b.bits || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
}

TEST(Swiglu, IsWithinItsRoundingsForEveryGate) {
  for (const float up_value : {1.0f, -0.75f, 3.140625f, 1e-3f, -65536.0f}) {
    const bfloat16 up = to_bfloat16(up_value);
    for_each_gate(kLastGate, std::numeric_limits<float>::max() / 1e5f, [&](bfloat16 gate) {
      const double exact = silu_of(static_cast<double>(to_float(gate))) * static_cast<double>(to_float(up));
      const double got = static_cast<double>(to_float(swiglu(gate, up, kNoLimit)));
      ASSERT_LE(std::abs(got - exact), kRelative * std::abs(exact) + kSmallest)
          << to_float(gate) << " " << up_value;
    });
  }
}

TEST(Swiglu, FadesToZeroBelowTheLastGate) {
  for_each_gate(-3e38f, kLastGate, [](bfloat16 gate) {
    const float got = to_float(swiglu(gate, to_bfloat16(1.0f), kNoLimit));
    ASSERT_LE(std::abs(got), 1.5e-36f) << to_float(gate);  // 87 e^-87
  });
}

TEST(Swiglu, OverflowsOnlyWhereTheProductDoes) {
  EXPECT_EQ(kInfinity, to_float(swiglu(to_bfloat16(3e38f), to_bfloat16(2.0f), kNoLimit)));
  EXPECT_EQ(-kInfinity, to_float(swiglu(to_bfloat16(3e38f), to_bfloat16(-3e38f), kNoLimit)));
  EXPECT_TRUE(std::isfinite(to_float(swiglu(to_bfloat16(3e38f), to_bfloat16(1.0f), kNoLimit))));
  EXPECT_TRUE(std::isfinite(to_float(swiglu(to_bfloat16(-3e38f), to_bfloat16(3e38f), kNoLimit))));
}

// R11: a tanh in the place of the sigmoid, or any sigmoid with an absolute error, has no correct digit here.
TEST(SwigluGradient, IsWithinItsRoundingsInTheTail) {
  for (const float d_hidden : {1.0f, -2.5f, 1e-4f}) {
    const bfloat16 up = to_bfloat16(-0.75f);
    for_each_gate(-20.0f, -5.0f, [&](bfloat16 gate) {
      const double g = static_cast<double>(to_float(gate));
      const double s = sigmoid_of(g);
      const double exact_gate = static_cast<double>(d_hidden) * -0.75 * (s + g * s * (1.0 - s));
      const double exact_up = static_cast<double>(d_hidden) * silu_of(g);
      const SwigluGradient got = swiglu_gradient(d_hidden, gate, up, kNoLimit);
      ASSERT_LE(std::abs(static_cast<double>(to_float(got.d_gate)) - exact_gate),
                kRelative * std::abs(exact_gate))
          << g;
      ASSERT_LE(std::abs(static_cast<double>(to_float(got.d_up)) - exact_up), kRelative * std::abs(exact_up))
          << g;
    });
  }
}

TEST(SwigluGradient, IsTheDerivativeOfTheForwardFormula) {
  constexpr double kUp = 1.375;
  constexpr float kDHidden = -1.625f;
  for_each_gate(-30.0f, 30.0f, [&](bfloat16 gate) {
    const double g = static_cast<double>(to_float(gate));
    const SwigluGradient got = swiglu_gradient(kDHidden, gate, to_bfloat16(1.375f), kNoLimit);
    const double d_gate =
        static_cast<double>(kDHidden) * derivative([](double v) { return silu_of(v) * kUp; }, g);
    const double d_up =
        static_cast<double>(kDHidden) * derivative([g](double v) { return silu_of(g) * v; }, kUp);
    // s + G s (1 - s) cancels near G = -1.28: the float32 roundings count against its terms.
    const double s = sigmoid_of(g);
    const double terms = std::abs(static_cast<double>(kDHidden) * kUp) * (s + std::abs(g) * s * (1 - s));
    ASSERT_LE(std::abs(static_cast<double>(to_float(got.d_gate)) - d_gate),
              0x1p-8 * std::abs(d_gate) + 0x1p-20 * terms + 1e-9);
    ASSERT_LE(std::abs(static_cast<double>(to_float(got.d_up)) - d_up), kRelative * std::abs(d_up) + 1e-9);
  });
}

TEST(SwigluLimit, ActsAsIfGateAndUpWereAtIt) {
  const SwigluLimit limit{2.0f};
  for (const float up : {-kInfinity, -1e30f, -2.0f, -1.5f, 0.0f, 1.0f, 2.0f, 2.015625f, 7.0f, kInfinity}) {
    const bfloat16 clamped = to_bfloat16(std::fmin(std::fmax(up, -2.0f), 2.0f));
    for_each_gate(-10.0f, 3e38f, [&](bfloat16 gate) {
      const bfloat16 low = to_float(gate) > 2.0f ? to_bfloat16(2.0f) : gate;
      ASSERT_EQ(swiglu(low, clamped, kNoLimit).bits, swiglu(gate, to_bfloat16(up), limit).bits);
    });
    ASSERT_EQ(swiglu(to_bfloat16(2.0f), clamped, kNoLimit).bits,
              swiglu(to_bfloat16(kInfinity), to_bfloat16(up), limit).bits);
  }
}

// Masks select: a product with 0 would turn an infinite or NaN gradient into NaN.
TEST(SwigluLimit, StopsGradientsWhereItClampsWhateverTheyAre) {
  const SwigluLimit limit{2.0f};
  for (const float d_hidden : {1.0f, -3.0f, kInfinity, -kInfinity, kNaN}) {
    const bfloat16 inside = to_bfloat16(0.5f);
    for (const float gate : {2.015625f, 100.0f, kInfinity}) {
      EXPECT_TRUE(is_zero(swiglu_gradient(d_hidden, to_bfloat16(gate), inside, limit).d_gate)) << d_hidden;
    }
    for (const float up : {-2.015625f, 2.015625f, -kInfinity, kInfinity}) {
      EXPECT_TRUE(is_zero(swiglu_gradient(d_hidden, inside, to_bfloat16(up), limit).d_up)) << d_hidden;
    }
  }
}

TEST(SwigluLimit, LetsGradientsThroughAtTheLimitItself) {
  const SwigluLimit limit{2.0f};
  const bfloat16 at = to_bfloat16(2.0f);
  for (const float up : {-2.0f, 2.0f}) {
    const SwigluGradient with = swiglu_gradient(1.5f, at, to_bfloat16(up), limit);
    const SwigluGradient without = swiglu_gradient(1.5f, at, to_bfloat16(up), kNoLimit);
    EXPECT_EQ(without.d_gate.bits, with.d_gate.bits);
    EXPECT_EQ(without.d_up.bits, with.d_up.bits);
    EXPECT_FALSE(is_zero(with.d_gate));
    EXPECT_FALSE(is_zero(with.d_up));
  }
}

TEST(SwigluLimit, OfInfinityIsNone) {
  const SwigluLimit infinite{kInfinity};
  for (const float gate : {-kInfinity, -1.0f, 0.0f, 3e38f, kInfinity, kNaN}) {
    for (const float up : {-kInfinity, 1.0f, kInfinity, kNaN}) {
      const bfloat16 g = to_bfloat16(gate);
      const bfloat16 u = to_bfloat16(up);
      EXPECT_TRUE(same_or_both_nan(swiglu(g, u, kNoLimit), swiglu(g, u, infinite)));
    }
  }
}

TEST(SwigluNaN, ReachesTheOutputThroughAnyLimit) {
  for (const SwigluLimit limit : {kNoLimit, SwigluLimit{2.0f}}) {
    EXPECT_TRUE(std::isnan(to_float(swiglu(to_bfloat16(kNaN), to_bfloat16(1.0f), limit))));
    EXPECT_TRUE(std::isnan(to_float(swiglu(to_bfloat16(1.0f), to_bfloat16(kNaN), limit))));
  }
}

TEST(SwigluNaN, OfTheGradientReachesBothGradients) {
  const bfloat16 one = to_bfloat16(1.0f);
  for (const SwigluLimit limit : {kNoLimit, SwigluLimit{2.0f}}) {
    EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(kNaN, one, one, limit).d_gate)));
    EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(kNaN, one, one, limit).d_up)));
  }
}

// G <= L lets a gradient through: NaN is not within a limit. Without one there is nothing to be within.
TEST(SwigluNaN, OfAnInputReachesWhatDependsOnItUnlessALimitStopsIt) {
  const bfloat16 nan = to_bfloat16(kNaN);
  const bfloat16 one = to_bfloat16(1.0f);
  const SwigluLimit limit{2.0f};
  EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(1.0f, nan, one, kNoLimit).d_gate)));
  EXPECT_TRUE(is_zero(swiglu_gradient(1.0f, nan, one, limit).d_gate));
  EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(1.0f, nan, one, kNoLimit).d_up)));
  EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(1.0f, nan, one, limit).d_up)));
  EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(1.0f, one, nan, kNoLimit).d_gate)));
  EXPECT_TRUE(std::isnan(to_float(swiglu_gradient(1.0f, one, nan, limit).d_gate)));
  EXPECT_TRUE(std::isfinite(to_float(swiglu_gradient(1.0f, one, nan, kNoLimit).d_up)))
      << "does not depend on up";
  EXPECT_TRUE(is_zero(swiglu_gradient(1.0f, one, nan, limit).d_up));
}

TEST(SwigluInfinity, FollowsTheFormula) {
  const bfloat16 plus = to_bfloat16(kInfinity);
  const bfloat16 minus = to_bfloat16(-kInfinity);
  const bfloat16 one = to_bfloat16(1.0f);
  EXPECT_EQ(kInfinity, to_float(swiglu(plus, one, kNoLimit)));
  EXPECT_EQ(-kInfinity, to_float(swiglu(one, minus, kNoLimit)));
  EXPECT_TRUE(std::isnan(to_float(swiglu(minus, one, kNoLimit)))) << "-infinity * sigmoid(-infinity)";
  EXPECT_EQ(kInfinity, to_float(swiglu_gradient(1.0f, one, plus, kNoLimit).d_gate));
  EXPECT_EQ(-kInfinity, to_float(swiglu_gradient(-kInfinity, one, one, kNoLimit).d_up));
}

}  // namespace
}  // namespace mok::ops
