// SPDX-License-Identifier: Apache-2.0
// What `mok train` prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mok/text.h"
#include "mok/train_arguments.h"

namespace mok::tool {

/// The sizes of a run, before it starts.
void print_header(const TrainArguments& arguments, const Corpus& corpus);

/// Lines while it runs: about twenty, and in a terminal one that is refreshed between them.
class TrainProgress {
 public:
  /// \param total_steps for the remaining time: those of this model, and of those that follow it.
  TrainProgress(const TrainArguments& arguments, std::int64_t steps);
  void start();
  /// \param load routes of each expert at this step; empty for the model without experts.
  void after_step(std::int64_t step, double loss, const std::vector<std::int64_t>& load);

 private:
  using Clock = std::chrono::steady_clock;
  void print_line(std::int64_t step);

  std::int64_t steps_;
  std::int64_t tokens_per_step_;
  bool quiet_;
  bool terminal_;
  Clock::time_point begin_, refreshed_;
  double loss_sum_ = 0;  ///< since the last line
  std::int64_t loss_count_ = 0;
  std::vector<std::int64_t> load_;  ///< since the last line
};

/// What came out.
struct TrainResult {
  double held_out = 0;                            ///< nats per byte
  double held_out_dense = 0;                      ///< of the model without experts
  double unigram = 0;                             ///< bits per byte
  double bigram = 0;                              ///< bits per byte
  std::vector<std::int64_t> load;                 ///< routes of each expert over the whole training
  std::vector<std::int64_t> steps_with_rows;      ///< of each expert
  std::vector<std::int64_t> steps_with_gradient;  ///< of those, the steps that gave it a gradient
  std::vector<double> gradient_norms;             ///< at the last step
};
void print_result(const TrainArguments& arguments, const TrainResult& result);
/// How long it took, and the most memory that it held.
void print_cost(double seconds);

}  // namespace mok::tool
