// SPDX-License-Identifier: Apache-2.0
// Order of minibatches, and the mixing of a stretch's parts.
#include "program/steps.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "program/task.h"

namespace mok::program {
namespace {

Steps make_steps(std::int64_t tiles, std::int64_t minibatch_tiles, std::int64_t per_macrobatch, Pass pass) {
  Dims dims;
  dims.minibatch_tiles = minibatch_tiles;
  dims.macrobatch_tiles = minibatch_tiles * per_macrobatch;
  return Steps::make(dims, tiles, pass);
}

TEST(Steps, StepAndMinibatchAreInverse) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::recompute}) {
    for (std::int64_t tiles = 0; tiles <= 70; ++tiles) {
      for (const std::int64_t minibatch_tiles : {1, 2, 3, 5, 8}) {
        for (const std::int64_t per_macrobatch : {1, 2, 3, 7, 100}) {
          const Steps steps = make_steps(tiles, minibatch_tiles, per_macrobatch, pass);
          std::vector<int> seen(steps.count(), 0);
          for (std::int64_t step = 0; step < steps.count(); ++step) {
            const std::int64_t minibatch = steps.minibatch_of_step(step);
            ASSERT_GE(minibatch, 0);
            ASSERT_LT(minibatch, steps.count());
            ++seen[minibatch];
            ASSERT_EQ(steps.step_of_minibatch(minibatch), step);
            for (std::int64_t tile = steps.first_tile(minibatch); tile < steps.end_tile(minibatch); ++tile) {
              ASSERT_EQ(steps.step_of_tile(tile), step);
            }
          }
          ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), steps.count());
        }
      }
    }
  }
}

TEST(Steps, ForwardEndsWithTheFirstMacrobatch) {
  const Steps steps = make_steps(11, 2, 2, Pass::forward);  // minibatches 01 | 23 | 45, the last one half
  std::vector<std::int64_t> order;
  for (std::int64_t step = 0; step < steps.count(); ++step) order.push_back(steps.minibatch_of_step(step));
  EXPECT_EQ(order, (std::vector<std::int64_t>{4, 5, 2, 3, 0, 1}));
  EXPECT_TRUE(steps.opens_macrobatch(0));
  EXPECT_FALSE(steps.opens_macrobatch(1));
  EXPECT_TRUE(steps.opens_macrobatch(2));
  EXPECT_EQ(steps.end_tile(5), 11);
}

TEST(Steps, BackwardRunsAlongTheRowsAndRecomputeStopsAtTheRing) {
  const Steps backward = make_steps(11, 2, 2, Pass::backward);
  for (std::int64_t step = 0; step < 6; ++step) EXPECT_EQ(backward.minibatch_of_step(step), step);
  EXPECT_EQ(make_steps(11, 2, 2, Pass::recompute).count(), 2);
  EXPECT_EQ(make_steps(3, 2, 2, Pass::recompute).count(), 2);
  EXPECT_EQ(make_steps(0, 2, 2, Pass::recompute).count(), 0);
}

/// A stretch of up to three ops that makes `counts` tasks, some of its units making several.
struct Mix {
  Stretch stretch;
  TasksPerUnit tasks;

  explicit Mix(const std::vector<std::int32_t>& counts) {
    constexpr Op kOps[] = {Op::dhidden, Op::dx, Op::weight_grad};
    for (const std::int32_t count : counts) {
      const Op op = kOps[stretch.num_parts];
      const std::int32_t units = count % 3 == 0 ? count / 3 : count;
      tasks.of[static_cast<int>(op)] = units > 0 ? count / units : 1;
      stretch.parts[stretch.num_parts++] = {op, 0, 0, units};
    }
  }
};

TEST(PickPart, MixesEveryIndexOnceAndInOrder) {
  std::vector<std::vector<std::int32_t>> mixes = {{1}, {500}};
  for (const std::int32_t a : {1, 2, 3, 7, 64, 301}) {
    for (const std::int32_t b : {1, 2, 5, 128, 299}) {
      mixes.push_back({a, b});
      for (const std::int32_t c : {1, 4, 9, 250}) mixes.push_back({a, b, c});
    }
  }
  for (const auto& counts : mixes) {
    const Mix mix(counts);
    std::vector<std::int64_t> next(counts.size(), 0);
    for (std::int64_t i = 0; i < mix.tasks.in(mix.stretch); ++i) {
      const detail::PartAt at = detail::pick_part(mix.stretch, mix.tasks, i);
      ASSERT_GE(at.part, 0);
      ASSERT_LT(at.part, mix.stretch.num_parts);
      ASSERT_EQ(at.index, next[at.part]) << "at " << i;
      ++next[at.part];
    }
    for (std::size_t part = 0; part < counts.size(); ++part) EXPECT_EQ(next[part], counts[part]);
  }
}

TEST(PickPart, SkipsAnOpThatTheLayerDoesNotHave) {
  Mix mix({5, 7, 11});
  mix.tasks.of[static_cast<int>(Op::dx)] = 0;
  std::vector<std::int64_t> seen(3, 0);
  for (std::int64_t i = 0; i < mix.tasks.in(mix.stretch); ++i) {
    ++seen[detail::pick_part(mix.stretch, mix.tasks, i).part];
  }
  EXPECT_EQ(seen, (std::vector<std::int64_t>{5, 0, 11}));
}

TEST(PickPart, MixesInProportion) {
  const Mix mix({100, 200, 300});
  std::vector<std::int64_t> seen(3, 0);
  for (std::int64_t i = 0; i < mix.tasks.in(mix.stretch); ++i) {
    ++seen[detail::pick_part(mix.stretch, mix.tasks, i).part];
    for (int part = 0; part < 3; ++part) {
      const double fair = static_cast<double>((i + 1) * (part + 1)) / 6.0;
      EXPECT_NEAR(static_cast<double>(seen[part]), fair, 2.0) << "after " << i + 1 << " tasks";
    }
  }
}

}  // namespace
}  // namespace mok::program
