// SPDX-License-Identifier: Apache-2.0
// The library's layer behind the tool's interface, against the float stand-in. This is about wiring: which
// expert's weights, which rank's tokens. The library's own tests bound its roundings.
#include "mok/library_layer.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dense_layer.h"

namespace mok::tool {
namespace {

constexpr std::int64_t kExperts = 4;
constexpr std::int64_t kTopk = 2;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kIntermediate = 128;
constexpr std::int64_t kTokens = 30;  // not a multiple of the ranks below

struct Sample {
  RowMatrix<float> x, grad_out;
  Routing<float> routing;
};

Sample make_sample() {
  Sample sample;
  Parameter<float> x("x", kTokens, kHidden);
  Parameter<float> grad_out("grad_out", kTokens, kHidden);
  x.randomize(1, 10, 1.0);
  grad_out.randomize(1, 11, 1.0);
  sample.x = x.value;
  sample.grad_out = grad_out.value;
  sample.routing.topk_experts.resize(kTokens, kTopk);
  sample.routing.router_weights.resize(kTokens, kTopk);
  Random random(3);
  for (Eigen::Index n = 0; n < kTokens; ++n) {
    // Expert 3 gets nothing.
    sample.routing.topk_experts(n, 0) = static_cast<std::int32_t>(random.below(3));
    sample.routing.topk_experts(n, 1) = (sample.routing.topk_experts(n, 0) + 1) % 3;
    sample.routing.router_weights(n, 0) = 0.75F;
    sample.routing.router_weights(n, 1) = -0.5F;
  }
  return sample;
}

LayerSizes sizes_of(std::int64_t ranks) {
  LayerSizes sizes;
  sizes.ranks = ranks;
  sizes.tokens = (kTokens + ranks - 1) / ranks;
  sizes.hidden = kHidden;
  sizes.intermediate = kIntermediate;
  sizes.experts = kExperts;
  sizes.topk = kTopk;
  return sizes;
}

void expect_close(const RowMatrix<float>& value, const RowMatrix<float>& expected, const std::string& name) {
  ASSERT_EQ(value.rows(), expected.rows()) << name;
  EXPECT_LT((value - expected).norm(), 0.02F * expected.norm() + 1e-20F) << name;
}

/// The rows of expert e in a parameter that stacks all experts.
auto expert_rows(RowMatrix<float>& stacked, std::size_t expert) {
  const Eigen::Index rows = stacked.rows() / kExperts;
  return stacked.middleRows(static_cast<Eigen::Index>(expert) * rows, rows);
}

TEST(LibraryLayer, AgreesWithTheStandInOnAnyNumberOfRanks) {
  const Sample sample = make_sample();
  DenseLayer<float> dense(kExperts, kHidden, kIntermediate, 1);
  RowMatrix<float> out, d_x, d_router_weights;
  dense.forward(sample.x, sample.routing, out);
  dense.backward(sample.x, sample.routing, sample.grad_out, d_x, d_router_weights);
  for (const std::int64_t ranks : {1, 2, 4}) {
    LibraryLayer layer(sizes_of(ranks), 1, 1, 2);
    const std::vector<Parameter<float>*> stacked = layer.parameters();
    const std::vector<Parameter<float>*> single = dense.parameters();
    for (std::size_t i = 0; i < single.size(); ++i) {
      expert_rows(stacked[i % 3]->value, i / 3) = single[i]->value;
    }
    RowMatrix<float> library_out, library_d_x, library_d_router_weights;
    for (int repeat = 0; repeat < 2; ++repeat) {  // gradients are overwritten, not added up
      layer.forward(sample.x, sample.routing, library_out);
      layer.backward(sample.x, sample.routing, sample.grad_out, library_d_x, library_d_router_weights);
    }
    expect_close(library_out, out, "out");
    expect_close(library_d_x, d_x, "d_x");
    expect_close(library_d_router_weights, d_router_weights, "d_router_weights");
    for (std::size_t i = 0; i < single.size(); ++i) {
      expect_close(expert_rows(stacked[i % 3]->grad, i / 3), single[i]->grad, single[i]->name);
    }
    for (int e = 0; e < kExperts; ++e) EXPECT_EQ(layer.has_gradient(e), e != 3) << e;
    EXPECT_EQ(layer.gradient_norm(3), 0);
    EXPECT_GT(layer.gradient_norm(0), 0);
  }
}

TEST(LibraryLayer, TakesFewerTokensThanRanks) {
  Sample sample = make_sample();
  LibraryLayer layer(sizes_of(4), 1, 1, 1);
  RowMatrix<float> all;
  layer.forward(sample.x, sample.routing, all);
  sample.x.conservativeResize(2, Eigen::NoChange);
  sample.routing.topk_experts.conservativeResize(2, Eigen::NoChange);
  sample.routing.router_weights.conservativeResize(2, Eigen::NoChange);
  RowMatrix<float> out;
  layer.forward(sample.x, sample.routing, out);
  EXPECT_EQ(out, all.topRows(2));
}

}  // namespace
}  // namespace mok::tool
