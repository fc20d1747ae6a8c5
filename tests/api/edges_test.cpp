// SPDX-License-Identifier: Apache-2.0
// Calls that once ended in a bare standard exception or a null pointer.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

TEST(TensorView, MoreThanThreeDimensions) {
  float value = 0;
  EXPECT_EQ(refusal_of([&value] {
              return TensorView(&value, {1, 1, 1, 1});
            }),
            "a tensor view has more than 3 dimensions; give it 1 to 3");
}

TEST(Schedule, AccessorsRefuseARankThatIsNone) {
  Refusals layer;
  const auto of_rank = [&layer](int rank) {
    return refusal_of([&] { return layer.schedule().rows_per_expert(rank); });
  };
  EXPECT_EQ(of_rank(2), "rank is 2; it must be from 0 to 1");
  EXPECT_EQ(of_rank(-1), "rank is -1; it must be from 0 to 1");
  EXPECT_EQ(refusal_of([&] { return layer.schedule().source_rank(7); }), "rank is 7; it must be from 0 to 1");
  EXPECT_EQ(refusal_of([&] { return layer.schedule().source_slot(7); }), "rank is 7; it must be from 0 to 1");
}

/// A refused schedule fills gradients with NaN: one that has no weight must not get that far.
TEST(Gradients, SharedOnesWithoutASharedExpert) {
  reference::Problem problem = small_problem();
  problem.shared_intermediate = 0;
  problem.shared_gate.clear();
  problem.shared_up.clear();
  problem.shared_down.clear();
  Refusals layer({}, problem);
  std::array<bfloat16, 1> nothing{};
  layer.expect_backward(
      "inputs[1].d_shared is given, but inputs[0].shared has no weights; it must be left out where there is "
      "no "
      "shared expert",
      [&nothing](std::vector<BackwardInput>& inputs) {
        inputs[1].d_shared.gate = TensorView(nothing.data(), {1, 1});
      });
}

}  // namespace
}  // namespace mok::testing
