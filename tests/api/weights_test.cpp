// SPDX-License-Identifier: Apache-2.0
// Weights and their gradients: shapes, expert strides, the shared expert, dtypes.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

using ForwardInputs = std::vector<ForwardInput>;
using BackwardInputs = std::vector<BackwardInput>;

TEST(RoutedWeights, Missing) {
  Refusals layer;
  layer.expect_forward("inputs[0].routed.gate is missing; it must be a tensor [El,I,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[0].routed.gate = {}; });
  layer.expect_forward("inputs[1].routed.up is missing; it must be a tensor [El,I,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[1].routed.up = {}; });
  layer.expect_forward("inputs[1].routed.down is missing; it must be a tensor [El,H,I] of bf16",
                       [](ForwardInputs& inputs) { inputs[1].routed.down = {}; });
  layer.expect_backward("inputs[0].routed.down is missing; it must be a tensor [El,H,I] of bf16",
                        [](BackwardInputs& inputs) { inputs[0].routed.down = {}; });
}

TEST(RoutedWeights, WrongDtypeOrDevice) {
  Refusals layer;
  layer.expect_forward("inputs[0].routed.gate is f32; it must be bf16",
                       [](ForwardInputs& inputs) { inputs[0].routed.gate.dtype = DType::f32; });
  layer.expect_forward("inputs[1].routed.down is on cuda:0; it must be on the CPU, where its workspace is",
                       [](ForwardInputs& inputs) { inputs[1].routed.down.device.type = DeviceType::cuda; });
}

TEST(RoutedWeights, WrongShape) {
  Refusals layer;
  layer.expect_forward("inputs[0].routed.gate is 2-dimensional; it must be 3-dimensional, [El,I,H]",
                       [](ForwardInputs& inputs) { inputs[0].routed.gate.dims = 2; });
  layer.expect_forward("inputs[0].routed.gate has shape [4,128,64]; it must be [El,I,H] = [2,128,64]",
                       [](ForwardInputs& inputs) { inputs[0].routed.gate.shape[0] = 4; });
  layer.expect_forward("inputs[1].routed.gate has shape [2,64,64]; it must be [El,I,H] = [2,128,64]",
                       [](ForwardInputs& inputs) { inputs[1].routed.gate.shape[1] = 64; });
  layer.expect_forward("inputs[0].routed.up has shape [2,128,128]; it must be [El,I,H] = [2,128,64]",
                       [](ForwardInputs& inputs) { inputs[0].routed.up.shape[2] = 128; });
  layer.expect_forward("inputs[0].routed.down has shape [2,128,64]; it must be [El,H,I] = [2,64,128]",
                       [](ForwardInputs& inputs) { inputs[0].routed.down = inputs[0].routed.gate; });
}

TEST(RoutedWeights, IntermediateNotAMultipleOf64) {
  Refusals layer;
  for (const std::int64_t bad : std::initializer_list<std::int64_t>{100, 0, -128, 1'000'000'000'000}) {
    layer.expect_forward("intermediate_size (rows of inputs[0].routed.gate) is " + std::to_string(bad) +
                             "; it must be a multiple of 64 from 64 to 1048576",
                         [bad](ForwardInputs& inputs) { inputs[0].routed.gate.shape[1] = bad; });
  }
}

TEST(RoutedWeights, NotContiguousInsideAnExpert) {
  Refusals layer;
  layer.expect_forward(
      "inputs[0].routed.up has stride 1 in dimension 1; it must be contiguous there (stride 64)",
      [](ForwardInputs& inputs) { inputs[0].routed.up.stride[1] = 1; });
}

TEST(RoutedWeights, ExpertStride) {
  Refusals layer;
  layer.expect_forward(
      "inputs[0].routed.gate has -8192 elements from expert to expert; it must have at least 0",
      [](ForwardInputs& inputs) { inputs[0].routed.gate = inputs[0].routed.gate.with_expert_stride(-8192); });
  layer.expect_forward(
      "inputs[1].routed.down has 9223372036854775807 elements from expert to expert; it must have at most "
      "576460752303423488",
      [](ForwardInputs& inputs) {
        inputs[1].routed.down.stride[0] = std::numeric_limits<std::int64_t>::max();
      });
}

// Experts that share weights are unusual, but only gradients would be wrong: reading them is allowed.
TEST(RoutedWeights, ExpertsMayShareWeights) {
  Refusals layer;
  std::vector<ForwardInput> inputs = layer.harness().forward_inputs();
  inputs[0].routed.gate = inputs[0].routed.gate.with_expert_stride(0);
  EXPECT_NO_THROW(static_cast<void>(forward(layer.workspace(), layer.schedule(), inputs)));
}

TEST(RoutedWeights, OtherLayerThanTheContext) {
  Refusals layer;
  std::vector<bfloat16> narrow(2 * 64 * 64);
  layer.expect_backward(
      "context was made for I = 128 and shared I = 192; the weights given have I = 64 and shared I = 192, "
      "which "
      "must be the same",
      [&narrow](BackwardInputs& inputs) {
        const ConstTensorView weight(narrow.data(), {2, 64, 64});
        for (BackwardInput& input : inputs) input.routed = {weight, weight, weight};
      });
  layer.expect_backward(
      "context was made for I = 128 and shared I = 192; the weights given have I = 128 and shared I = 0, "
      "which "
      "must be the same",
      [](BackwardInputs& inputs) {
        for (BackwardInput& input : inputs) {
          input.shared = {};
          input.d_shared = {};
        }
      });
}

TEST(SharedExpert, GivenInPart) {
  Refusals layer;
  layer.expect_forward("inputs[0].shared.up is missing; it must be a tensor [Is,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[0].shared.up = {}; });
  layer.expect_forward("inputs[1].shared.down is missing; it must be a tensor [H,Is] of bf16",
                       [](ForwardInputs& inputs) { inputs[1].shared.down = {}; });
  layer.expect_forward(
      "inputs[0].shared.up is given but inputs[0].shared.gate is not; a shared expert needs its weights on "
      "every "
      "rank",
      [](ForwardInputs& inputs) { inputs[0].shared.gate = {}; });
}

TEST(SharedExpert, OnOneRankOnly) {
  Refusals layer;
  layer.expect_forward("inputs[1].shared.gate is missing; it must be a tensor [Is,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[1].shared = {}; });
  layer.expect_forward(
      "inputs[1].shared.gate is given but inputs[0].shared.gate is not; a shared expert needs its weights on "
      "every "
      "rank",
      [](ForwardInputs& inputs) { inputs[0].shared = {}; });
}

TEST(SharedExpert, WidthsThatDiffer) {
  Refusals layer;
  layer.expect_forward("inputs[1].shared.gate has shape [128,64]; it must be [Is,H] = [192,64]",
                       [](ForwardInputs& inputs) { inputs[1].shared.gate.shape[0] = 128; });
  layer.expect_forward("inputs[0].shared.down has shape [64,64]; it must be [H,Is] = [64,192]",
                       [](ForwardInputs& inputs) { inputs[0].shared.down.shape[1] = 64; });
}

TEST(SharedExpert, WidthNotAMultipleOf64) {
  Refusals layer;
  for (const std::int64_t bad : {100, 0, -64}) {
    layer.expect_forward("shared_intermediate_size (rows of inputs[0].shared.gate) is " +
                             std::to_string(bad) + "; it must be a multiple of 64 from 64 to 1048576",
                         [bad](ForwardInputs& inputs) { inputs[0].shared.gate.shape[0] = bad; });
  }
  layer.expect_forward("inputs[0].shared.gate is 3-dimensional; it must be 2-dimensional, [Is,H]",
                       [](ForwardInputs& inputs) { inputs[0].shared.gate.dims = 3; });
}

// Rows of shared weights have no stride of their own: only experts may stand apart.
TEST(SharedExpert, NotContiguous) {
  Refusals layer;
  layer.expect_forward(
      "inputs[0].shared.gate has stride 128 in dimension 0; it must be contiguous there (stride 64)",
      [](ForwardInputs& inputs) { inputs[0].shared.gate.stride[0] = 128; });
}

TEST(Gradients, Missing) {
  Refusals layer;
  layer.expect_backward("inputs[0].d_routed.gate is missing; it must be a tensor [El,I,H] of bf16",
                        [](BackwardInputs& inputs) { inputs[0].d_routed.gate = {}; });
  layer.expect_backward("inputs[1].d_routed.down is missing; it must be a tensor [El,H,I] of bf16",
                        [](BackwardInputs& inputs) { inputs[1].d_routed.down = {}; });
  layer.expect_backward("inputs[1].d_shared.up is missing; it must be a tensor [Is,H] of bf16",
                        [](BackwardInputs& inputs) { inputs[1].d_shared.up = {}; });
}

TEST(Gradients, WrongDtype) {
  Refusals layer;
  layer.expect_backward(
      "inputs[0].d_routed.gate is int32; it must be bf16 (fresh gradients) or f32 (a main_grad to add to)",
      [](BackwardInputs& inputs) { inputs[0].d_routed.gate.dtype = DType::i32; });
}

TEST(Gradients, MixedDtypes) {
  Refusals layer;
  layer.expect_backward(
      "inputs[0].d_routed.up is f32; it must be bf16, which inputs[0].d_routed.gate is: the three are all "
      "bf16 or "
      "all f32",
      [](BackwardInputs& inputs) { inputs[0].d_routed.up.dtype = DType::f32; });
  layer.expect_backward(
      "inputs[1].d_shared.down is bf16; it must be f32, which inputs[1].d_shared.gate is: the three are all "
      "bf16 or "
      "all f32",
      [](BackwardInputs& inputs) {
        inputs[1].d_shared.gate.dtype = DType::f32;
        inputs[1].d_shared.up.dtype = DType::f32;
      });
}

TEST(Gradients, WrongShape) {
  Refusals layer;
  layer.expect_backward("inputs[0].d_routed.down has shape [2,128,64]; it must be [El,H,I] = [2,64,128]",
                        [](BackwardInputs& inputs) { inputs[0].d_routed.down = inputs[0].d_routed.gate; });
  layer.expect_backward("inputs[1].d_shared.gate has shape [128,64]; it must be [Is,H] = [192,64]",
                        [](BackwardInputs& inputs) { inputs[1].d_shared.gate.shape[0] = 128; });
}

TEST(Gradients, OverlappingExperts) {
  Refusals layer;
  for (const std::int64_t bad : {0, 8191, -8192}) {
    layer.expect_backward("inputs[0].d_routed.up has " + std::to_string(bad) +
                              " elements from expert to expert; it must have at least 8192",
                          [bad](BackwardInputs& inputs) { inputs[0].d_routed.up.stride[0] = bad; });
  }
}

TEST(Gradients, MainGradIsUntouchedByARefusal) {
  RunOptions options;
  options.main_grad = true;
  Refusals layer(options);
  layer.expect_backward("inputs[1].d_routed.gate has no data (a null pointer); it must hold 16384 elements",
                        [](BackwardInputs& inputs) { inputs[1].d_routed.gate.data = nullptr; });
}

TEST(Gradients, StridedWeightsSurviveARefusal) {
  RunOptions options;
  options.expert_gap = 64;
  Refusals layer(options);
  layer.expect_backward(
      "inputs[0].d_routed.gate has 8000 elements from expert to expert; it must have at least 8192",
      [](BackwardInputs& inputs) { inputs[0].d_routed.gate.stride[0] = 8000; });
}

}  // namespace
}  // namespace mok::testing
