// SPDX-License-Identifier: Apache-2.0
// Activations and ids: a tensor that cannot be used is named, with what it is and what would do.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "api/refusal.h"

namespace mok::testing {
namespace {

constexpr std::int64_t kTera = 1'000'000'000'000;
constexpr Device kGpu{DeviceType::cuda, 1};

using ForwardInputs = std::vector<ForwardInput>;
using BackwardInputs = std::vector<BackwardInput>;

TEST(Activation, Missing) {
  Refusals layer;
  layer.expect_forward("inputs[0].x is missing; it must be a tensor [T of the schedule,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[0].x = {}; });
  layer.expect_forward(
      "inputs[1].router_weights is missing; it must be a tensor [T of the schedule,K] of f32",
      [](ForwardInputs& inputs) { inputs[1].router_weights = {}; });
  layer.expect_forward("inputs[1].out is missing; it must be a tensor [T of the schedule,H] of bf16",
                       [](ForwardInputs& inputs) { inputs[1].out = {}; });
  layer.expect_backward("inputs[0].grad_output is missing; it must be a tensor [T of the schedule,H] of bf16",
                        [](BackwardInputs& inputs) { inputs[0].grad_output = {}; });
  layer.expect_backward("inputs[1].d_x is missing; it must be a tensor [T of the schedule,H] of bf16",
                        [](BackwardInputs& inputs) { inputs[1].d_x = {}; });
  layer.expect_backward(
      "inputs[0].d_router_weights is missing; it must be a tensor [T of the schedule,K] of f32",
      [](BackwardInputs& inputs) { inputs[0].d_router_weights = {}; });
}

TEST(Activation, WrongDtype) {
  Refusals layer;
  layer.expect_forward("inputs[0].x is f32; it must be bf16",
                       [](ForwardInputs& inputs) { inputs[0].x.dtype = DType::f32; });
  layer.expect_forward("inputs[1].router_weights is bf16; it must be f32",
                       [](ForwardInputs& inputs) { inputs[1].router_weights.dtype = DType::bf16; });
  layer.expect_forward("inputs[1].out is int32; it must be bf16",
                       [](ForwardInputs& inputs) { inputs[1].out.dtype = DType::i32; });
  layer.expect_backward("inputs[0].d_router_weights is int64; it must be f32",
                        [](BackwardInputs& inputs) { inputs[0].d_router_weights.dtype = DType::i64; });
}

TEST(Activation, WrongDevice) {
  Refusals layer;
  layer.expect_forward("inputs[1].x is on cuda:1; it must be on the CPU, where its workspace is",
                       [](ForwardInputs& inputs) { inputs[1].x.device = kGpu; });
  layer.expect_backward("inputs[0].d_x is on cuda:1; it must be on the CPU, where its workspace is",
                        [](BackwardInputs& inputs) { inputs[0].d_x.device = kGpu; });
}

TEST(Activation, WrongShape) {
  Refusals layer;
  layer.expect_forward("inputs[0].x has shape [5,128]; it must be [T of the schedule,H] = [5,64]",
                       [](ForwardInputs& inputs) { inputs[0].x.shape[1] = 128; });
  layer.expect_forward("inputs[1].router_weights has shape [3,3]; it must be [T of the schedule,K] = [3,2]",
                       [](ForwardInputs& inputs) { inputs[1].router_weights.shape[1] = 3; });
  layer.expect_backward("inputs[1].d_x has shape [3,32]; it must be [T of the schedule,H] = [3,64]",
                        [](BackwardInputs& inputs) { inputs[1].d_x.shape[1] = 32; });
}

TEST(Activation, TokensUnlikeTheSchedule) {
  Refusals layer;
  layer.expect_forward("inputs[0].x has shape [4,64]; it must be [T of the schedule,H] = [5,64]",
                       [](ForwardInputs& inputs) { inputs[0].x.shape[0] = 4; });
  layer.expect_forward("inputs[1].out has shape [5,64]; it must be [T of the schedule,H] = [3,64]",
                       [](ForwardInputs& inputs) { inputs[1].out.shape[0] = 5; });
  layer.expect_backward("inputs[0].grad_output has shape [0,64]; it must be [T of the schedule,H] = [5,64]",
                        [](BackwardInputs& inputs) { inputs[0].grad_output.shape[0] = 0; });
}

TEST(Activation, WrongNumberOfDimensions) {
  Refusals layer;
  layer.expect_forward(
      "inputs[0].x is 3-dimensional; it must be 2-dimensional, [T of the schedule,H]",
      [](ForwardInputs& inputs) {
        inputs[0].x = ConstTensorView(static_cast<const bfloat16*>(inputs[0].x.data), {1, 5, 64});
      });
  layer.expect_forward(
      "inputs[0].router_weights is 1-dimensional; it must be 2-dimensional, [T of the schedule,K]",
      [](ForwardInputs& inputs) { inputs[0].router_weights.dims = 1; });
  // Fields that no constructor would set.
  layer.expect_backward("inputs[0].d_x is 7-dimensional; it must be 2-dimensional, [T of the schedule,H]",
                        [](BackwardInputs& inputs) { inputs[0].d_x.dims = 7; });
  layer.expect_backward("inputs[0].d_x is -1-dimensional; it must be 2-dimensional, [T of the schedule,H]",
                        [](BackwardInputs& inputs) { inputs[0].d_x.dims = -1; });
}

TEST(Activation, NotContiguous) {
  Refusals layer;
  layer.expect_forward("inputs[0].x has stride 128 in dimension 0; it must be contiguous there (stride 64)",
                       [](ForwardInputs& inputs) { inputs[0].x.stride[0] = 128; });
  layer.expect_forward("inputs[1].out has stride 3 in dimension 1; it must be contiguous there (stride 1)",
                       [](ForwardInputs& inputs) {
                         inputs[1].out.stride = {1, 3, 0};
                       });
  layer.expect_backward(
      "inputs[0].d_x has stride -64 in dimension 0; it must be contiguous there (stride 64)",
      [](BackwardInputs& inputs) { inputs[0].d_x.stride[0] = -64; });
}

TEST(Activation, NoData) {
  Refusals layer;
  layer.expect_forward("inputs[0].x has no data (a null pointer); it must hold 320 elements",
                       [](ForwardInputs& inputs) { inputs[0].x.data = nullptr; });
  layer.expect_backward("inputs[1].d_router_weights has no data (a null pointer); it must hold 6 elements",
                        [](BackwardInputs& inputs) { inputs[1].d_router_weights.data = nullptr; });
}

TEST(Activation, MisalignedData) {
  Refusals layer;
  std::vector<ForwardInput> inputs = layer.harness().forward_inputs();
  inputs[0].router_weights.data = static_cast<const char*>(inputs[0].router_weights.data) + 2;
  const std::string sentence =
      refusal_of([&] { static_cast<void>(forward(layer.workspace(), layer.schedule(), inputs)); });
  EXPECT_EQ(sentence.find("inputs[0].router_weights begins at address 0x"), 0u) << sentence;
  EXPECT_NE(sentence.find("; a tensor of f32 must begin at a multiple of 4"), std::string::npos) << sentence;
}

TEST(Activation, AbsurdShapes) {
  Refusals layer;
  layer.expect_forward("inputs[0].x has shape [1000000000000,64]; it must be [T of the schedule,H] = [5,64]",
                       [](ForwardInputs& inputs) { inputs[0].x.shape[0] = kTera; });
  layer.expect_forward("inputs[0].x has shape [-5,64]; every size must be at least 0",
                       [](ForwardInputs& inputs) { inputs[0].x.shape[0] = -5; });
  layer.expect_forward(
      "inputs[0].x has shape [9223372036854775807,64]; it must be [T of the schedule,H] = [5,64]",
      [](ForwardInputs& inputs) { inputs[0].x.shape[0] = std::numeric_limits<std::int64_t>::max(); });
}

TEST(Entries, OnePerRank) {
  Refusals layer;
  layer.expect_forward("inputs has a size of 1; it must have one entry per rank of the workspace (2)",
                       [](ForwardInputs& inputs) { inputs.pop_back(); });
  layer.expect_forward("inputs has a size of 3; it must have one entry per rank of the workspace (2)",
                       [](ForwardInputs& inputs) { inputs.push_back(inputs[0]); });
  layer.expect_backward("inputs has a size of 0; it must have one entry per rank of the workspace (2)",
                        [](BackwardInputs& inputs) { inputs.clear(); });
  layer.expect_refused("inputs has a size of 0; it must have one entry per rank of the workspace (2)", [&] {
    static_cast<void>(recompute_forward_context(layer.workspace(), layer.schedule(), {}));
  });
}

/// The ids of two good ranks, for one of them to be spoiled.
struct Ids {
  std::vector<std::int32_t> values{0, 1, 2, 3, 0, 3};
  std::vector<ConstTensorView> views{{values.data(), {3, 2}}, {values.data(), {2, 2}}};
};

void expect_ids_refused(const std::string& sentence, const Ids& ids, int num_experts = 4) {
  Refusals layer;
  layer.expect_refused(sentence,
                       [&] { static_cast<void>(build_schedule(layer.workspace(), ids.views, num_experts)); });
}

TEST(TopkExperts, Missing) {
  Ids ids;
  ids.views[1] = {};
  expect_ids_refused("topk_experts[1] is missing; it must be a tensor [T,K] of int32", ids);
}

TEST(TopkExperts, WrongDtype) {
  Ids ids;
  ids.views[0].dtype = DType::f32;
  expect_ids_refused("topk_experts[0] is f32; it must be int32 or int64", ids);
}

TEST(TopkExperts, WrongDevice) {
  Ids ids;
  ids.views[0].device = kGpu;
  expect_ids_refused("topk_experts[0] is on cuda:1; it must be on the CPU, where its workspace is", ids);
}

TEST(TopkExperts, WrongShape) {
  Ids ids;
  ids.views[1] = {ids.values.data(), {2, 3}};
  expect_ids_refused("topk_experts[1] has shape [2,3]; it must be [T,K] = [2,2]", ids);
  ids.views[1] = {ids.values.data(), {6}};
  expect_ids_refused("topk_experts[1] is 1-dimensional; it must be 2-dimensional, [T,K]", ids);
}

TEST(TopkExperts, NotContiguous) {
  Ids ids;
  ids.views[0].stride[0] = 4;
  expect_ids_refused("topk_experts[0] has stride 4 in dimension 0; it must be contiguous there (stride 2)",
                     ids);
}

TEST(TopkExperts, NoData) {
  Ids ids;
  ids.views[0].data = nullptr;
  expect_ids_refused("topk_experts[0] has no data (a null pointer); it must hold 6 elements", ids);
}

TEST(TopkExperts, MoreTokensThanTheWorkspace) {
  Ids ids;
  ids.values.resize(12);
  ids.views[0] = {ids.values.data(), {6, 2}};
  expect_ids_refused(
      "topk_experts[0] has 6 tokens; it must have at most 5, the max_tokens that the workspace was made for",
      ids);
}

TEST(TopkExperts, AbsurdTokens) {
  Ids ids;
  ids.views[0] = {ids.values.data(), {kTera, 2}};
  expect_ids_refused(
      "topk_experts[0] has 1000000000000 tokens; it must have at most 5, the max_tokens that the "
      "workspace was made for",
      ids);
  // Written to fields, for the constructor multiplies.
  ids.views[0].shape[0] = std::numeric_limits<std::int64_t>::max();
  expect_ids_refused(
      "topk_experts[0] has shape [9223372036854775807,2]; it must have at most 1152921504606846976 "
      "elements",
      ids);
  ids.views[0].shape[0] = -3;
  expect_ids_refused("topk_experts[0] has shape [-3,2]; every size must be at least 0", ids);
}

TEST(TopkExperts, OneEntryPerRank) {
  Ids ids;
  ids.views.pop_back();
  expect_ids_refused("topk_experts has a size of 1; it must have one entry per rank of the workspace (2)",
                     ids);
}

TEST(TopkExperts, NumExperts) {
  expect_ids_refused("num_experts is 0; it must be from 1 to 65536", {}, 0);
  expect_ids_refused("num_experts is 2000000000; it must be from 1 to 65536", {}, 2'000'000'000);
  expect_ids_refused(
      "num_experts is 3; it must be a multiple of ranks (2), for every rank holds as many experts", {}, 3);
}

TEST(TopkExperts, TopkAboveExperts) {
  Workspace workspace({}, {2, 8, 64, 3, {}});
  const std::vector<std::int32_t> ids(3, 0);
  const std::vector<ConstTensorView> views{{ids.data(), {1, 3}}, {ids.data(), {1, 3}}};
  EXPECT_EQ(refusal_of([&] { static_cast<void>(build_schedule(workspace, views, 2)); }),
            "topk is 3; it must be at most num_experts (2), for a token goes to different experts");
}

}  // namespace
}  // namespace mok::testing
