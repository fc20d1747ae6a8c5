// SPDX-License-Identifier: Apache-2.0
// `mok check`: the library against the float64 reference.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "mok/check_report.h"
#include "mok/cli.h"
#include "mok/device.h"
#include "mok/layer_run.h"
#include "mok/tool_error.h"
#include "mok/trace.h"
#include "reference/bound.h"
#include "reference/moe_reference.h"
#include "reference/random_problem.h"

namespace mok::tool {

namespace {

struct CheckArguments {
  LayerSizes shape;
  double swiglu_limit = 0;  ///< 0 = none
  std::int64_t seed = 1;
  std::filesystem::path routing;
  std::int64_t routing_step = -1;  ///< -1 = the last
  std::string device = "cpu";
  bool staged = false;
};

void add_options(CLI::App& command, CheckArguments& arguments) {
  add_routing_options(command, arguments.shape);
  add_width_options(command, arguments.shape);
  add_layer_options(command, arguments.shape);
  add_positive_number(command, "--swiglu-limit", arguments.swiglu_limit, "Clamp of gate and up before SwiGLU",
                      1e30)
      ->option_text("X [none]");
  add_whole_number(command, "--seed", arguments.seed, "Of the random problem", 0, INT64_MAX);
  CLI::Option* file = command.add_option("--routing", arguments.routing,
                                         "Take ranks, tokens, experts, topk and routes from this trace");
  file->option_text("FILE")->check(file_name());
  for (const char* size : {"--tokens", "--experts", "--topk", "--ranks"})
    file->excludes(command.get_option(size));
  add_whole_number(command, "--routing-step", arguments.routing_step, "The trace's step to take [its last]",
                   0, INT64_MAX)
      ->option_text("N")
      ->needs(file);
  add_device_option(command, arguments.device, "cpu");
  command.add_flag("--staged", arguments.staged, "Run one op at a time: slow, the same bits");
}

/// The step to replay, and its sizes in `shape`.
RoutingStep load_routing(CheckArguments& arguments) {
  const RoutingTrace trace = read_trace(arguments.routing);
  if (trace.steps.empty()) throw DataError(fmt::format("{} holds no step.", arguments.routing.string()));
  arguments.shape.experts = trace.sizes.experts;
  arguments.shape.topk = trace.sizes.topk;
  arguments.shape.ranks = trace.sizes.ranks;
  for (const RoutingStep& step : trace.steps) {
    const bool last = step.step == trace.steps.back().step;
    if (arguments.routing_step == step.step || (arguments.routing_step < 0 && last)) return step;
  }
  throw DataError(fmt::format("{} has no step {}: it has {} steps from {} to {}.", arguments.routing.string(),
                              arguments.routing_step, trace.steps.size(), trace.steps.front().step,
                              trace.steps.back().step));
}

Config make_config(const CheckArguments& arguments) {
  Config config = safe_config(arguments.shape, 0);
  if (arguments.swiglu_limit > 0) config.swiglu_limit = static_cast<float>(arguments.swiglu_limit);
  return config;
}

/// Refuses what would not fit into memory, before anything of that size is made.
void check_sizes(const CheckArguments& arguments, const std::vector<std::int64_t>& tokens,
                 const Config& config, const Device& device) {
  check_shape(arguments.shape);
  LayerSizes shape = arguments.shape;
  shape.tokens = std::max<std::int64_t>(1, *std::max_element(tokens.begin(), tokens.end()));
  const double library = total_bytes(memory_of(shape, config, device), shape.ranks);
  const bool on_host = device.type == DeviceType::cpu;
  check_memory("Checking these sizes", check_bytes(shape) + (on_host ? library : 0));
}

reference::Problem make_problem(const CheckArguments& arguments, const std::vector<std::int64_t>& tokens,
                                const std::optional<RoutingStep>& routing) {
  reference::ProblemOptions options;
  options.seed = static_cast<std::uint64_t>(arguments.seed);
  options.hidden = arguments.shape.hidden;
  options.intermediate = arguments.shape.intermediate;
  options.shared_intermediate = arguments.shape.shared_intermediate;
  options.experts = arguments.shape.experts;
  options.topk = arguments.shape.topk;
  options.tokens_per_rank = tokens;
  // As the library sees it: a float.
  if (arguments.swiglu_limit > 0) options.swiglu_limit = static_cast<float>(arguments.swiglu_limit);
  reference::Problem problem = reference::random_problem(options);
  if (!routing) return problem;
  for (std::size_t r = 0; r < problem.ranks.size(); ++r) {
    const RankRouting& rank = routing->ranks[r];
    problem.ranks[r].topk_experts = rank.topk_experts;
    problem.ranks[r].router_weights.assign(rank.router_weights.begin(), rank.router_weights.end());
  }
  return problem;
}

void print_header(const CheckArguments& arguments, const std::vector<std::int64_t>& tokens,
                  const std::optional<RoutingStep>& routing, const Device& device) {
  const LayerSizes& shape = arguments.shape;
  fmt::print("{} of the library against the float64 reference, on {}\n",
             has_backward(device) ? "Forward and backward" : "Forward", describe(device));
  fmt::print("  ranks {}, tokens {}, hidden {}, intermediate {}, shared {}, experts {}, topk {}{}{}\n",
             shape.ranks, fmt::join(tokens, "+"), shape.hidden, shape.intermediate, shape.shared_intermediate,
             shape.experts, shape.topk,
             routing ? fmt::format(", routing of step {}", routing->step) : std::string(),
             arguments.staged ? ", staged" : "");
  if (!has_backward(device)) {
    fmt::print("  no backward: it runs on the CPU backend only so far\n");
  }
}

/// The reference with these roundings, as far as the library goes on the device.
reference::Result evaluate(const reference::Problem& problem, reference::Rounding rounding,
                           const Device& device) {
  if (has_backward(device)) return reference::evaluate(problem, rounding);
  reference::Options options;
  options.rounding = rounding;
  return reference::forward(problem, options);
}

int run_check(CheckArguments arguments) {
  std::optional<RoutingStep> routing;
  if (!arguments.routing.empty()) routing = load_routing(arguments);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(arguments.shape.ranks), arguments.shape.tokens);
  for (std::size_t r = 0; routing && r < tokens.size(); ++r) tokens[r] = routing->ranks[r].tokens;
  const Config config = make_config(arguments);
  const Device device = device_named(arguments.device);
  check_sizes(arguments, tokens, config, device);

  print_header(arguments, tokens, routing, device);
  const reference::Problem problem = make_problem(arguments, tokens, routing);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const reference::Candidate candidate = run_layer(problem, config, arguments.staged, device);
  const Clock::time_point middle = Clock::now();
  const reference::Result exact = evaluate(problem, reference::Rounding::none, device);
  const reference::Result rounded = evaluate(problem, reference::Rounding::section2, device);
  const Clock::time_point end = Clock::now();
  fmt::print("  library {:.2f} s, reference {:.2f} s\n\n",
             std::chrono::duration<double>(middle - begin).count(),
             std::chrono::duration<double>(end - middle).count());
  std::vector<reference::TensorReport> reports = reference::compare_all(problem, exact, rounded, candidate);
  // What was not computed must not look like something that passed.
  if (!has_backward(device)) std::erase_if(reports, [](const auto& report) { return report.name != "out"; });
  fmt::print("{}", check_table(reports, arguments.shape.shared_intermediate > 0));
  require_all_pass(reports);
  fmt::print(
      "\nAll within their bounds: twice the distance of a float64 computation that rounds where the layer "
      "does.\n");
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& app, int& exit_status) {
  const auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command =
      app.add_subcommand("check", "Compare the layer with a float64 reference on random data");
  add_options(*command, *arguments);
  command->callback([arguments, &exit_status] { exit_status = run_check(*arguments); });
}

}  // namespace mok::tool
