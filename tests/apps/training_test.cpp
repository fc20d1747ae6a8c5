// SPDX-License-Identifier: Apache-2.0
#include "mok/training.h"

#include <algorithm>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "dense_layer.h"
#include "mok/tool_error.h"
#include "run_tool.h"

namespace mok::tool {
namespace {

TEST(Training, LearningRateRisesThenFalls) {
  const TrainingOptions options = {.steps = 200, .tokens_per_step = 1, .learning_rate = 1.0};
  EXPECT_DOUBLE_EQ(learning_rate_at(10, options), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(20, options), 1.0);
  EXPECT_NEAR(learning_rate_at(110, options), 0.01 + 0.99 * 0.5, 1e-12);
  EXPECT_NEAR(learning_rate_at(200, options), 0.01, 1e-12);
  for (std::int64_t step = 21; step <= 200; ++step) {
    EXPECT_LT(learning_rate_at(step, options), learning_rate_at(step - 1, options));
  }
  const TrainingOptions one_step = {.steps = 1, .tokens_per_step = 1, .learning_rate = 1.0};
  EXPECT_NEAR(learning_rate_at(1, one_step), 0.01, 1e-12);
}

TEST(Training, ABatchHoldsTheBytesBeforeItsTargets) {
  Corpus corpus;
  corpus.files = {{"one", "abcdef", 5}};
  corpus.context = 3;
  const std::vector<Position> positions = {{0, 3}, {0, 5}};
  const Batch batch = gather_batch(corpus, positions);
  EXPECT_EQ(batch.targets, (std::vector<std::uint8_t>{'d', 'f'}));
  EXPECT_EQ(batch.contexts(0, 0), 'a');
  EXPECT_EQ(batch.contexts(0, 2), 'c');
  EXPECT_EQ(batch.contexts(1, 0), 'c');
}

TEST(Training, TheSamplerSeesEveryPositionOncePerRound) {
  std::vector<Position> positions;
  for (std::uint32_t i = 0; i < 10; ++i) positions.push_back({0, i});
  PositionSampler sampler(positions, 1);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::uint32_t> seen;
    for (const std::int64_t count : {7, 3}) {
      for (const Position& position : sampler.next(count)) seen.push_back(position.offset);
    }
    std::sort(seen.begin(), seen.end());
    for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(seen[i], i);
  }
}

TEST(Training, TheSamplerServesMoreThanThereIs) {
  PositionSampler sampler({{0, 1}, {0, 2}}, 1);
  EXPECT_EQ(sampler.next(7).size(), 7U);
}

TEST(Training, LearnsAPattern) {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "abcde ";
  const Corpus corpus = load_corpus({scratch.file("t", text)}, 2);
  DenseLayer<float> layer(4, 16, 16, 1);
  LanguageModel<float> model({.context = 2, .hidden = 16, .experts = 4, .topk = 2}, &layer, 1, 2);
  const TrainingOptions options = {
      .steps = 60, .tokens_per_step = 64, .learning_rate = 0.02, .seed = 1, .threads = 2};
  EXPECT_GT(held_out_loss(model, corpus, 64), 5);
  std::int64_t steps = 0;
  train(model, corpus, options, [&](std::int64_t step, double) { EXPECT_EQ(step, ++steps); });
  EXPECT_EQ(steps, 60);
  EXPECT_LT(held_out_loss(model, corpus, 64), 0.1);
}

TEST(Training, ALossThatIsNotFiniteIsAFailure) {
  const Scratch scratch;
  const Corpus corpus = load_corpus({scratch.text("t", 500)}, 2);
  LanguageModel<float> model({.context = 2, .hidden = 16, .experts = 1, .topk = 1}, nullptr, 1, 1);
  model.parameters()[0]->value.setConstant(std::numeric_limits<float>::infinity());
  const TrainingOptions options = {
      .steps = 3, .tokens_per_step = 8, .learning_rate = 0.01, .seed = 1, .threads = 1};
  EXPECT_THROW(train(model, corpus, options, [](std::int64_t, double) {}), DataError);
  EXPECT_THROW(static_cast<void>(held_out_loss(model, corpus, 8)), DataError);
}

}  // namespace
}  // namespace mok::tool
