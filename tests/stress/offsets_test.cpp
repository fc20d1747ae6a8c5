// SPDX-License-Identifier: Apache-2.0
// R7: offsets beyond 2^31 elements, in sparse memory of which little is touched.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "cpu/tile_buffer.h"
#include "ops/dispatch/dispatch.h"
#include "ops/down/down.h"
#include "ops/slot_sum/slot_sum.h"
#include "program/layout.h"
#include "reference/random_problem.h"
#include "support/layer_run.h"
#include "support/shapes.h"
#include "support/sparse_memory.h"

namespace mok::testing {
namespace {

constexpr std::int64_t kTwoTo31 = std::int64_t{1} << 31;

/// Four experts of one rank whose weights lie so far apart that the last one's begin behind 2^31 elements
/// (and behind 2^32, 2^33 bytes).
class FarExperts : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::int64_t kStride = kTwoTo31 / 3 + 64;

  /// Copies of a tensor's experts, at the far stride.
  static ConstTensorView spread(const ConstTensorView& tensor, bfloat16* to) {
    const std::int64_t elements = tensor.shape[1] * tensor.shape[2];
    for (std::int64_t e = 0; e < tensor.shape[0]; ++e) {
      std::copy_n(static_cast<const bfloat16*>(tensor.data) + e * tensor.stride[0], elements,
                  to + e * kStride);
    }
    return ConstTensorView(to, {tensor.shape[0], tensor.shape[1], tensor.shape[2]})
        .with_expert_stride(kStride);
  }

  template <class Element>
  static TensorView far_gradient(const TensorView& tensor, Element* to) {
    return TensorView(to, {tensor.shape[0], tensor.shape[1], tensor.shape[2]}).with_expert_stride(kStride);
  }

  /// The far gradient's elements where the near one has its own, and wants them to have the same bits.
  template <class Element>
  static void expect_same(const TensorView& near, const Element* far) {
    const std::int64_t elements = near.shape[1] * near.shape[2];
    for (std::int64_t e = 0; e < near.shape[0]; ++e) {
      EXPECT_EQ(0, std::memcmp(static_cast<const Element*>(near.data) + e * near.stride[0], far + e * kStride,
                               static_cast<std::size_t>(elements) * sizeof(Element)))
          << "expert " << e;
    }
  }

  template <class Element>
  static void expect_same_bits(bool main_grad) {
    reference::ProblemOptions options = shape(60, 64, 64, 4, 2, 1);
    options.seed = 91;
    const reference::Problem problem = reference::random_problem(options);
    RunOptions run;
    run.main_grad = main_grad;
    LayerHarness harness(problem, run);
    Workspace workspace(run.config, harness.workspace_options());
    const Schedule schedule = harness.schedule(workspace);
    harness.backward(workspace, schedule, harness.forward(workspace, schedule));
    const LayerRun near = harness.results();

    constexpr std::int64_t kElements = 4 * kStride;
    SparseMemory<bfloat16> gate(kElements), up(kElements), down(kElements);
    SparseMemory<Element> d_gate(kElements), d_up(kElements), d_down(kElements);
    for (const void* memory :
         {static_cast<const void*>(gate.data()), static_cast<const void*>(up.data()),
          static_cast<const void*>(down.data()), static_cast<const void*>(d_gate.data()),
          static_cast<const void*>(d_up.data()), static_cast<const void*>(d_down.data())}) {
      if (memory == nullptr) GTEST_SKIP() << "this machine gives a process less than 50 GB of address space";
    }
    std::vector<ForwardInput> forward_inputs = harness.forward_inputs();
    const ExpertWeights far{spread(forward_inputs[0].routed.gate, gate.data()),
                            spread(forward_inputs[0].routed.up, up.data()),
                            spread(forward_inputs[0].routed.down, down.data())};
    forward_inputs[0].routed = far;
    const ForwardContext context = forward(workspace, schedule, forward_inputs, harness.pass_options());
    // The near gradients are what the first backward pass left; a second harness keeps them while this one
    // runs.
    LayerHarness outputs(problem, run);
    std::vector<BackwardInput> backward_inputs = outputs.backward_inputs();
    const WeightGradients near_gradients = backward_inputs[0].d_routed;
    backward(workspace, schedule, context, backward_inputs, harness.pass_options());
    backward_inputs[0].routed = far;
    backward_inputs[0].d_routed = {far_gradient(near_gradients.gate, d_gate.data()),
                                   far_gradient(near_gradients.up, d_up.data()),
                                   far_gradient(near_gradients.down, d_down.data())};
    backward(workspace, schedule, context, backward_inputs, harness.pass_options());
    expect_same(near_gradients.gate, d_gate.data());
    expect_same(near_gradients.up, d_up.data());
    expect_same(near_gradients.down, d_down.data());
    EXPECT_TRUE(same_bits(near.out, harness.results().out));
    EXPECT_TRUE(same_bits(near.d_x, outputs.results().d_x));
  }
};

TEST_P(FarExperts, GiveTheBitsOfNearOnes) {
  if (GetParam()) {
    expect_same_bits<float>(true);
  } else {
    expect_same_bits<bfloat16>(false);
  }
}

std::string name_of(const ::testing::TestParamInfo<bool>& info) { return info.param ? "MainGrad" : "Fresh"; }
INSTANTIATE_TEST_SUITE_P(R7, FarExperts, ::testing::Bool(), name_of);

/// One rank whose symmetric memory holds 2^24 tokens of 8 routes and 256 columns: slots and rows of x up to
/// 2^35 elements away. One tile of rows, of tokens at both ends.
class FarTokens : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = std::int64_t{1} << 24;
  static constexpr std::int64_t kHidden = 256;
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int32_t kTopk = 8;
  static constexpr std::int64_t kRows = 100;

  void SetUp() override {
    view_.dims.topk = kTopk;
    view_.dims.max_tokens = kTokens;
    view_.dims.hidden = kHidden;
    view_.dims.intermediate = kWidth;
    view_.symmetric = program::make_layout<program::SymmetricLayout>(view_.dims);
    memory_ = std::make_unique<SparseMemory<std::byte>>(view_.symmetric.bytes);
    if (memory_->data() == nullptr)
      GTEST_SKIP() << "this machine gives a process less than 100 GB of address space";
    peers_[0] = memory_->data();
    view_.peers = peers_;
    for (std::int64_t row = 0; row < kRows; ++row) {
      slots_.push_back(
          static_cast<std::int32_t>(row % 2 == 0 ? row * kTopk : (kTokens - 1 - row) * kTopk + row % kTopk));
    }
    source_ranks_.assign(static_cast<std::size_t>(program::kRowTile), -1);
    std::fill_n(source_ranks_.begin(), kRows, 0);
    view_.tables.source_rank = source_ranks_.data();
    view_.tables.source_slot = slots_.data();
    ring_.assign(static_cast<std::size_t>(program::kRowTile * kHidden), bfloat16{0xFFFF});
    task_.expert = 0;
    task_.row_count = kRows;
    task_.padded_rows = program::kRowTile;
  }

  [[nodiscard]] std::int64_t slot(std::int64_t row) const { return slots_[static_cast<std::size_t>(row)]; }
  bfloat16* slot_memory(std::int64_t at) { return view_.symmetric.slots.at(peers_[0]) + at * kHidden; }
  static bfloat16 value(std::int64_t row, std::int64_t col) {
    return to_bfloat16(static_cast<float>(row * 3 - 2 * (col % 50)));
  }

  ops::RankView view_;
  program::Task task_;
  std::unique_ptr<SparseMemory<std::byte>> memory_;
  std::byte* peers_[1] = {};
  std::vector<std::int32_t> slots_, source_ranks_;
  std::vector<bfloat16> ring_;
  std::unique_ptr<cpu::TileBuffer> buffer_ = std::make_unique<cpu::TileBuffer>();
};

TEST_F(FarTokens, R7AreDispatched) {
  for (std::int64_t row = 0; row < kRows; ++row) {
    bfloat16* const x = view_.symmetric.x.at(peers_[0]) + slot(row) / kTopk * kHidden;
    for (std::int64_t h = 0; h < kHidden; ++h) x[h] = value(row, h);
  }
  ASSERT_GT(slot(1) / kTopk * kHidden, kTwoTo31);
  view_.saved.x = ring_.data();
  task_.op = program::Op::dispatch_x;
  ops::Dispatch::run_cpu(view_, task_, *buffer_);
  for (std::int64_t row = 0; row < program::kRowTile; ++row) {
    for (std::int64_t h = 0; h < kHidden; ++h) {
      const std::uint16_t expected = row < kRows ? value(row, h).bits : 0;
      ASSERT_EQ(expected, ring_[static_cast<std::size_t>(row * kHidden + h)].bits) << row;
    }
  }
}

// Hd = (1, 0, 0, ...) times the row's number, Wd's first column = the column's number: y[row][h] = row * h
// % 8.
TEST_F(FarTokens, R7GetTheirRowsPushed) {
  std::vector<bfloat16> hidden(static_cast<std::size_t>(program::kRowTile * kWidth));
  std::vector<bfloat16> down(static_cast<std::size_t>(kHidden * kWidth));
  for (std::int64_t row = 0; row < kRows; ++row) {
    hidden[static_cast<std::size_t>(row * kWidth)] = to_bfloat16(static_cast<float>(row % 16 + 1));
  }
  for (std::int64_t h = 0; h < kHidden; ++h) {
    down[static_cast<std::size_t>(h * kWidth)] = to_bfloat16(static_cast<float>(h % 8 + 1));
  }
  view_.hidden = hidden.data();
  view_.routed.down = {down.data(), 0};
  task_.op = program::Op::down;
  ASSERT_GT(slot(1) * kHidden, kTwoTo31);
  for (std::int64_t col = 0; col < kHidden; col += 128) {
    task_.col_begin = col;
    task_.col_count = 128;
    ops::Down::run_cpu(view_, task_, *buffer_);
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t h = 0; h < kHidden; ++h) {
      ASSERT_EQ(static_cast<float>((row % 16 + 1) * (h % 8 + 1)), to_float(slot_memory(slot(row))[h])) << row;
    }
  }
}

TEST_F(FarTokens, R7AreSummed) {
  std::vector<std::int32_t> order;
  for (std::int64_t row = 1; row < kRows; row += 2)
    order.push_back(static_cast<std::int32_t>(slot(row) / kTopk));
  SparseMemory<std::int32_t> ids(kTokens * kTopk);
  SparseMemory<float> router_weights(kTokens * kTopk);
  SparseMemory<bfloat16> out(kTokens * kHidden);
  ASSERT_TRUE(ids.data() != nullptr && router_weights.data() != nullptr && out.data() != nullptr);
  for (const std::int32_t token : order) {
    const std::int64_t first = static_cast<std::int64_t>(token) * kTopk;
    for (std::int64_t k = 0; k < kTopk; ++k) {
      router_weights.data()[first + k] = 0.5f;
      for (std::int64_t h = 0; h < kHidden; ++h)
        slot_memory(first + k)[h] = to_bfloat16(static_cast<float>(h % 8));
    }
  }
  view_.tables.token_order[0] = order.data();
  view_.tables.topk_experts = ids.data();  // expert 0 everywhere
  view_.router_weights = router_weights.data();
  view_.out = out.data();
  task_.op = program::Op::weighted_sum;
  task_.row_count = static_cast<std::int64_t>(order.size());
  ops::SlotSum::run_cpu(view_, task_, *buffer_);
  for (const std::int32_t token : order) {
    for (std::int64_t h = 0; h < kHidden; ++h) {
      ASSERT_EQ(static_cast<float>(4 * (h % 8)), to_float(out.data()[token * kHidden + h]));
    }
  }
}

}  // namespace
}  // namespace mok::testing
