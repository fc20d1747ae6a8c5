// SPDX-License-Identifier: Apache-2.0
// The training loop of a language model, and its loss on held-out text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "mok/language_model.h"
#include "mok/text.h"

namespace mok::tool {

struct TrainingOptions {
  std::int64_t steps = 0;
  std::int64_t tokens_per_step = 0;  ///< over all ranks
  double learning_rate = 0;          ///< its peak
  std::uint64_t seed = 0;            ///< of the order in which tokens are seen
  int threads = 1;
};

/// A linear rise over the first tenth of the steps (at most 100), then half a cosine down to a hundredth.
/// \param step counted from 1.
double learning_rate_at(std::int64_t step, const TrainingOptions& options);

/// The contexts and targets at `positions`.
Batch gather_batch(const Corpus& corpus, std::span<const Position> positions);

/// Hands out positions in a random order; starts a new order when all have been seen.
class PositionSampler {
 public:
  PositionSampler(std::vector<Position> positions, std::uint64_t seed);
  [[nodiscard]] std::vector<Position> next(std::int64_t count);

 private:
  std::vector<Position> positions_;
  Random random_;
  std::size_t used_ = 0;
};

/// Trains; calls `after_step(step, loss)` with the gradients of the step still in place. The data and their
/// order depend on the corpus, the tokens per step and the seed alone. \throws DataError when a loss is not
/// finite.
void train(LanguageModel<float>& model, const Corpus& corpus, const TrainingOptions& options,
           const std::function<void(std::int64_t step, double loss)>& after_step);

/// Tokens that held_out_loss gives a model at once: those of a step, or more where steps are small.
std::int64_t held_out_batch(std::int64_t tokens_per_step);

/// The mean cross-entropy in nats over the held-out text.
/// \throws DataError when it is not finite.
double held_out_loss(LanguageModel<float>& model, const Corpus& corpus, std::int64_t tokens_per_step);

}  // namespace mok::tool
