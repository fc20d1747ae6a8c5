// SPDX-License-Identifier: Apache-2.0
#include "mok/train_arguments.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "mok/device.h"
#include "mok/layer_run.h"
#include "mok/tool_error.h"
#include "mok/training.h"

namespace mok::tool {

namespace {
constexpr std::int64_t kMaxContext = 1 << 10;
constexpr std::int64_t kMaxSteps = 10'000'000;
constexpr std::int64_t kMaxWorkers = 256;
}  // namespace

TrainArguments::TrainArguments() {
  shape.ranks = 4;
  shape.tokens = 256;
  shape.experts = 8;
  shape.topk = 2;
  shape.hidden = 256;
  shape.intermediate = 256;
}

void TrainArguments::add_to(CLI::App& command) {
  command.add_option("--text", text, "Text files [the licences in /usr/share/common-licenses]")
      ->option_text("FILE ...")
      ->check(file_name());
  add_routing_options(command, shape);
  add_width_options(command, shape);
  add_whole_number(command, "--context", context, "Bytes that a prediction looks back; divides --hidden", 1,
                   kMaxContext);
  add_whole_number(command, "--steps", steps, "Training steps, of ranks * tokens each", 1, kMaxSteps);
  add_positive_number(command, "--lr", learning_rate, "Peak learning rate of Adam", 10);
  add_positive_number(command, "--balance", balance, "Weight of the load-balancing loss", 100);
  add_whole_number(command, "--seed", seed, "Of all random numbers; the same seed gives the same bits", 0,
                   INT64_MAX);
  add_whole_number(command, "--workers", workers,
                   "Compute threads per rank; 0 = this machine's cores / ranks", 0, kMaxWorkers);
  CLI::Option* file = command.add_option("--trace", trace, "Write the routing of some steps to this file")
                          ->option_text("FILE")
                          ->check(file_name());
  CLI::Option* list = command.add_option("--trace-steps", trace_steps, "Steps to trace")
                          ->option_text("N,N,...")
                          ->delimiter(',');
  list->check(whole_number(1, kMaxSteps))->needs(file);
  add_whole_number(command, "--trace-every", trace_every, "Trace every Nth step [a tenth of --steps]", 1,
                   kMaxSteps)
      ->option_text("N")
      ->needs(file)
      ->excludes(list);
  add_device_option(command, device, "cpu");
  command.add_flag("--quiet", quiet, "Print the result alone, without times");
}

void TrainArguments::check() const {
  if (!has_backward(device_named(device))) {
    throw UsageError(fmt::format(
        "--device is {}: training takes backward, which runs on the CPU backend only so far; let it be cpu.",
        device));
  }
  check_shape(shape);
  if (shape.hidden % context != 0) {
    throw UsageError(fmt::format("--context {} does not divide --hidden {}: every byte has as many numbers.",
                                 context, shape.hidden));
  }
  for (const std::int64_t step : trace_steps) {
    if (step > steps)
      throw UsageError(fmt::format("--trace-steps {} is after the last of --steps {}.", step, steps));
  }
  const auto of = [](std::int64_t number) { return static_cast<double>(number); };
  // Values, gradients and two moments in f32, and the copy in bf16.
  const double weights = 3 * of(shape.experts) * of(shape.hidden) * of(shape.intermediate) * 18;
  // Five f32 and four bf16 tensors [N, H], and the logits [N, 256].
  const double activations = of(held_out_batch(tokens_per_step())) * (of(shape.hidden) * 28 + 256 * 4);
  const double library = total_bytes(memory_of(layer_sizes(), safe_config(shape, workers)), shape.ranks);
  check_memory("Training these sizes", weights + activations + library);
}

LayerSizes TrainArguments::layer_sizes() const {
  LayerSizes sizes = shape;
  sizes.tokens = (held_out_batch(tokens_per_step()) + shape.ranks - 1) / shape.ranks;
  return sizes;
}

int TrainArguments::threads() const {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(workers == 0 ? cores : std::min(workers * shape.ranks, 4 * cores));
}

bool TrainArguments::traces(std::int64_t step) const {
  if (trace.empty()) return false;
  if (!trace_steps.empty())
    return std::find(trace_steps.begin(), trace_steps.end(), step) != trace_steps.end();
  const std::int64_t every = trace_every != 0 ? trace_every : std::max<std::int64_t>(1, steps / 10);
  return step % every == 0;
}

}  // namespace mok::tool
