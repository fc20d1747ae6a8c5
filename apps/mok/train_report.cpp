// SPDX-License-Identifier: Apache-2.0
#include "mok/train_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numbers>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mok/chart.h"
#include "mok/human.h"
#include "mok/output.h"

namespace mok::tool {

namespace {
double bits(double nats) { return nats / std::numbers::ln2; }
double nats(double bits) { return bits * std::numbers::ln2; }
}  // namespace

void print_header(const TrainArguments& arguments, const Corpus& corpus) {
  const LayerSizes& shape = arguments.shape;
  const auto training = static_cast<std::int64_t>(corpus.training_positions().size());
  const auto held_out = static_cast<std::int64_t>(corpus.held_out_positions().size());
  const std::int64_t expert_weights = 3 * shape.experts * shape.hidden * shape.intermediate;
  fmt::print("A byte-level language model with one mixture-of-experts layer\n");
  fmt::print("  text      {} files, {} bytes: {} to learn from, {} held out (the last tenth of each file)\n",
             corpus.files.size(), grouped(corpus.size()), grouped(training), grouped(held_out));
  fmt::print(
      "  model     context {} bytes, hidden {}, router to {} of {} experts, intermediate {}, {} expert "
      "weights\n",
      arguments.context, shape.hidden, shape.topk, shape.experts, shape.intermediate,
      grouped(expert_weights));
  fmt::print("  ranks     {} virtual, {} tokens and {} experts each; cpu backend, bf16\n", shape.ranks,
             shape.tokens, shape.experts / shape.ranks);
  fmt::print(
      "  training  {} steps of {} tokens ({:.1f} times the text), learning rate {}, seed {}\n\n",
      grouped(arguments.steps), grouped(arguments.tokens_per_step()),
      static_cast<double>(arguments.steps * arguments.tokens_per_step()) / static_cast<double>(training),
      arguments.learning_rate, arguments.seed);
}

TrainProgress::TrainProgress(const TrainArguments& arguments, std::int64_t steps)
    : steps_(steps),
      tokens_per_step_(arguments.tokens_per_step()),
      quiet_(arguments.quiet),
      terminal_(isatty(STDOUT_FILENO) != 0) {}

void TrainProgress::start() {
  begin_ = refreshed_ = Clock::now();
  if (quiet_) return;
  fmt::print("   step   loss (nats)   bits/byte   tokens/s   load max/mean   evenness   left\n");
  flush_output();
}

void TrainProgress::print_line(std::int64_t step) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double loss = loss_sum_ / static_cast<double>(loss_count_);
  const double rate = static_cast<double>(step * tokens_per_step_) / std::max(seconds, 1e-9);
  const double left = seconds / static_cast<double>(step) * static_cast<double>(steps_ - step);
  std::string balance = fmt::format("{:>13}   {:>8}", "-", "-");
  if (!load_.empty()) {
    const Balance even = balance_of(load_);
    balance = fmt::format("{:>13.2f}   {:>8.3f}", even.max_over_mean, even.entropy);
  }
  fmt::print("{}{:>7}   {:>11.4f}   {:>9.4f}   {:>8}   {}   {:>4}", terminal_ ? "\r" : "", step, loss,
             bits(loss), grouped(std::llround(rate)), balance, minutes_seconds(left));
}

void TrainProgress::after_step(std::int64_t step, double loss, const std::vector<std::int64_t>& load) {
  if (quiet_) return;
  loss_sum_ += loss;
  ++loss_count_;
  load_.resize(load.size());
  std::transform(load.begin(), load.end(), load_.begin(), load_.begin(), std::plus<>());
  const std::int64_t every = std::max<std::int64_t>(1, steps_ / 20);
  if (step == 1 || step % every == 0 || step == steps_) {
    print_line(step);
    fmt::print("\n");
    loss_sum_ = 0;
    loss_count_ = 0;
    load_.clear();
  } else if (terminal_ && Clock::now() - refreshed_ > std::chrono::milliseconds(200)) {
    print_line(step);
    refreshed_ = Clock::now();
  }
  flush_output();
}

void print_result(const TrainArguments& arguments, const TrainResult& result) {
  const double held_out = bits(result.held_out);
  const auto line = [&](const char* what, double in_bits) {
    const double margin = in_bits - held_out;
    fmt::print("  {:<40} {:>7.4f}  ({:.4f}){}\n", what, in_bits, nats(in_bits),
               margin == 0 ? std::string() : fmt::format("  {:+.4f}", margin));
  };
  fmt::print("Held-out text: bits per byte (nats), less is better, and how much more than this model\n");
  line("this model", held_out);
  line("the same model without its experts", bits(result.held_out_dense));
  line("bigram entropy of the held-out text", result.bigram);
  line("unigram entropy of the held-out text", result.unigram);
  const bool beats_dense = result.held_out < result.held_out_dense;
  const bool beats_bigram = held_out < result.bigram;
  fmt::print("This model {} the same model without its experts and {} the bigram entropy.\n",
             beats_dense ? "beats" : "does not beat", beats_bigram ? "beats" : "does not beat");

  const Balance balance = balance_of(result.load);
  fmt::print(
      "\nRoutes of each expert over the training: max/mean {:.2f}, evenness (entropy; 1 = all alike) "
      "{:.3f}\n",
      balance.max_over_mean, balance.entropy);
  const std::vector<std::string> chart = load_chart(result.load, 32);
  const std::int64_t local = arguments.shape.experts / arguments.shape.ranks;
  for (std::size_t e = 0; e < chart.size(); ++e) {
    fmt::print("  {}  rank {}  norm of its last gradient {:.2e}\n", chart[e],
               static_cast<std::int64_t>(e) / local, result.gradient_norms[e]);
  }
  std::int64_t with_rows = 0;
  std::int64_t with_gradient = 0;
  for (std::size_t e = 0; e < chart.size(); ++e) {
    with_rows += result.steps_with_rows[e];
    with_gradient += result.steps_with_gradient[e];
  }
  fmt::print("\nExperts that saw rows got a non-zero gradient in {} of {} cases (experts x steps).\n",
             grouped(with_gradient), grouped(with_rows));
}

void print_cost(double seconds) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("Took {:.1f} s and at most {} of memory.\n", seconds,
             human_bytes(static_cast<double>(usage.ru_maxrss) * 1024));
}

}  // namespace mok::tool
