// SPDX-License-Identifier: Apache-2.0
// `mok train`: a small language model, trained on real text through the library's forward and backward.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "mok/atomic_file.h"
#include "mok/entropy.h"
#include "mok/interrupt.h"
#include "mok/library_layer.h"
#include "mok/tool_error.h"
#include "mok/trace.h"
#include "mok/train_arguments.h"
#include "mok/train_report.h"
#include "mok/training.h"

namespace mok::tool {

namespace {

ModelSizes model_sizes(const TrainArguments& arguments) {
  return {.context = arguments.context,
          .hidden = arguments.shape.hidden,
          .experts = arguments.shape.experts,
          .topk = arguments.shape.topk,
          .balance_factor = arguments.balance};
}

TrainingOptions training_options(const TrainArguments& arguments) {
  return {.steps = arguments.steps,
          .tokens_per_step = arguments.tokens_per_step(),
          .learning_rate = arguments.learning_rate,
          .seed = static_cast<std::uint64_t>(arguments.seed),
          .threads = arguments.threads()};
}

/// The trace of a run: the routing of the last forward, cut into ranks.
class Trace {
 public:
  explicit Trace(const TrainArguments& arguments)
      : arguments_(arguments),
        file_(arguments.trace),
        writer_(file_.stream(), {.ranks = static_cast<int>(arguments.shape.ranks),
                                 .experts = static_cast<int>(arguments.shape.experts),
                                 .topk = static_cast<int>(arguments.shape.topk),
                                 .hidden = arguments.shape.hidden,
                                 .intermediate = arguments.shape.intermediate}) {}

  void add(std::int64_t step, const Routing<float>& routing) {
    RoutingStep line;
    line.step = step;
    const std::int64_t routes = arguments_.shape.tokens * arguments_.shape.topk;
    for (std::int64_t rank = 0; rank < arguments_.shape.ranks; ++rank) {
      const std::int32_t* ids = routing.topk_experts.data() + rank * routes;
      const float* weights = routing.router_weights.data() + rank * routes;
      line.ranks.push_back({arguments_.shape.tokens, {ids, ids + routes}, {weights, weights + routes}});
    }
    writer_.add(line);
  }

  void finish() {
    writer_.finish();
    file_.commit();
  }

 private:
  const TrainArguments& arguments_;
  AtomicFile file_;
  TraceWriter writer_;
};

void train_with_experts(const TrainArguments& arguments, const Corpus& corpus, std::optional<Trace>& trace,
                        TrainResult& result) {
  const auto seed = static_cast<std::uint64_t>(arguments.seed);
  const auto experts = static_cast<int>(arguments.shape.experts);
  LibraryLayer layer(arguments.layer_sizes(), arguments.workers, seed, arguments.threads());
  LanguageModel<float> model(model_sizes(arguments), &layer, seed, arguments.threads());
  result.load.resize(static_cast<std::size_t>(experts));
  result.steps_with_rows.resize(result.load.size());
  result.steps_with_gradient.resize(result.load.size());

  TrainProgress progress(arguments, arguments.steps);
  progress.start();
  train(model, corpus, training_options(arguments), [&](std::int64_t step, double loss) {
    const std::vector<std::int64_t>& load = model.router()->load();
    for (std::size_t e = 0; e < load.size(); ++e) {
      result.load[e] += load[e];
      if (load[e] == 0) continue;
      ++result.steps_with_rows[e];
      if (layer.has_gradient(static_cast<int>(e))) ++result.steps_with_gradient[e];
    }
    if (arguments.traces(step)) trace->add(step, model.router()->routing());
    progress.after_step(step, loss, load);
  });
  for (int e = 0; e < experts; ++e) result.gradient_norms.push_back(layer.gradient_norm(e));
  result.held_out = held_out_loss(model, corpus, arguments.tokens_per_step());
}

void train_without_experts(const TrainArguments& arguments, const Corpus& corpus, TrainResult& result) {
  if (!arguments.quiet)
    fmt::print("\nThe same model without its experts, on the same data in the same order\n");
  LanguageModel<float> model(model_sizes(arguments), nullptr, static_cast<std::uint64_t>(arguments.seed),
                             arguments.threads());
  TrainProgress progress(arguments, arguments.steps);
  progress.start();
  train(model, corpus, training_options(arguments),
        [&](std::int64_t step, double loss) { progress.after_step(step, loss, {}); });
  result.held_out_dense = held_out_loss(model, corpus, arguments.tokens_per_step());
  if (!arguments.quiet) fmt::print("\n");
}

int run_train(const TrainArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  handle_interrupts();  // before there is a temporary file to clean up
  arguments.check();
  // Eigen cuts its sums by the cache sizes that it finds: fixed ones, or another machine would give other
  // bits.
  Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 16 << 20);
  const Corpus corpus =
      load_corpus(arguments.text.empty() ? default_text_files() : arguments.text, arguments.context);
  std::optional<Trace> trace;
  if (!arguments.trace.empty()) trace.emplace(arguments);
  if (!arguments.quiet) print_header(arguments, corpus);

  TrainResult result;
  const std::vector<BytePair> pairs = pairs_of(corpus, corpus.held_out_positions());
  result.unigram = unigram_entropy(pairs);
  result.bigram = bigram_entropy(pairs);
  train_with_experts(arguments, corpus, trace, result);
  if (trace) trace->finish();
  train_without_experts(arguments, corpus, result);
  print_result(arguments, result);
  if (!arguments.quiet) {
    print_cost(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (result.steps_with_gradient != result.steps_with_rows) {
    throw DataError("An expert that saw rows got no gradient.");
  }
  return kExitOk;
}

}  // namespace

void add_train(CLI::App& app, int& exit_status) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train", "Train a small language model through the layer on real text");
  arguments->add_to(*command);
  command->footer(
      "The last tenth of each text file, at most 64 KiB of it, is held out. The loss on it is printed "
      "beside\n"
      "the entropies of its own byte and byte-pair counts, which the best unigram or bigram model fitted to\n"
      "that very text would reach, and beside the same model without its experts, trained the same way.\n"
      "The router's load-balancing loss is that of Switch Transformers.");
  command->callback([arguments, &exit_status] { exit_status = run_train(*arguments); });
}

}  // namespace mok::tool
