// SPDX-License-Identifier: Apache-2.0
// Calls that once ended in a bare standard exception or a null pointer.
#include <array>
#include <utility>
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

TEST(MovedFrom, HandlesGiveASentence) {
  Workspace workspace({}, {1, 4, 64, 1, {}});
  const std::vector<std::int32_t> ids(4, 0);
  const std::vector<ConstTensorView> views{ConstTensorView(ids.data(), {4, 1})};
  Schedule schedule = build_schedule(workspace, views, 2);
  const Schedule schedule_now = std::move(schedule);
  const Workspace workspace_now = std::move(workspace);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(refusal_of([&] { return workspace.nbytes(); }),
            "the workspace has been moved from; use the one that it was moved to");
  EXPECT_EQ(refusal_of([&] { return build_schedule(workspace, views, 2); }),
            "the workspace has been moved from; use the one that it was moved to");
  EXPECT_EQ(refusal_of([&] { return schedule.rows_per_expert(0); }),
            "the schedule has been moved from; use the one that it was moved to");
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(schedule_now.rows_per_expert(0)[0], 4);
}

TEST(Overlap, OutOnTopOfX) {
  Refusals layer;
  layer.expect_forward(
      "inputs[1].out overlaps inputs[1].x in memory; an output must share no memory with another tensor of "
      "the call",
      [](std::vector<ForwardInput>& inputs) { inputs[1].out.data = const_cast<void*>(inputs[1].x.data); });
}

/// The shared expert's weight gradients read grad_output when d_x is long written.
TEST(Overlap, GradientOfXOnTopOfGradOutput) {
  Refusals layer;
  layer.expect_backward(
      "inputs[0].d_x overlaps inputs[0].grad_output in memory; an output must share no memory with another "
      "tensor "
      "of the call",
      [](std::vector<BackwardInput>& inputs) {
        inputs[0].d_x.data = const_cast<void*>(inputs[0].grad_output.data);
      });
}

TEST(Overlap, TwoGradientsInOnePlace) {
  Refusals layer;
  layer.expect_backward(
      "inputs[0].d_routed.up overlaps inputs[0].d_routed.gate in memory; an output must share no memory with "
      "another tensor of the call",
      [](std::vector<BackwardInput>& inputs) { inputs[0].d_routed.up = inputs[0].d_routed.gate; });
}

/// Experts of one tensor that interleave with those of another are legal: halves of one [El, 2I, H] tensor.
TEST(Overlap, InterleavedHalvesAreNone) {
  const reference::Problem problem = small_problem();
  LayerHarness harness(problem, {});
  Workspace workspace({}, harness.workspace_options());
  const Schedule schedule = harness.schedule(workspace);
  const ForwardContext context = harness.forward(workspace, schedule);
  harness.backward(workspace, schedule, context);
  const LayerRun expected = harness.results();

  std::vector<BackwardInput> inputs = harness.backward_inputs();
  const std::int64_t half = problem.intermediate * problem.hidden;
  std::vector<bfloat16> both(static_cast<std::size_t>(2 * 2 * half));
  const auto half_of = [&](std::int64_t offset) {
    return TensorView(both.data() + offset, {2, problem.intermediate, problem.hidden})
        .with_expert_stride(2 * half);
  };
  inputs[0].d_routed.gate = half_of(0);
  inputs[0].d_routed.up = half_of(half);
  backward(workspace, schedule, context, inputs);
  for (std::int64_t e = 0; e < 2; ++e) {
    for (std::int64_t n = 0; n < half; ++n) {
      const auto at = static_cast<std::size_t>(e * half + n);
      const auto in_both = static_cast<std::size_t>(2 * e * half + n);
      ASSERT_EQ(to_float(both[in_both]), expected.d_gate[at]);
      ASSERT_EQ(to_float(both[in_both + static_cast<std::size_t>(half)]), expected.d_up[at]);
    }
  }
}

}  // namespace
}  // namespace mok::testing
