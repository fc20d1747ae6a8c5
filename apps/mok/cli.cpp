// SPDX-License-Identifier: Apache-2.0
#include "mok/cli.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "mok/human.h"
#include "mok/machine.h"
#include "mok/tool_error.h"

namespace mok::tool {

namespace {

template <class Number>
bool parse(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc{} && stop == end;
}

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high, std::int64_t multiple) {
  const std::string kind = multiple == 1 ? "whole number" : fmt::format("multiple of {}", multiple);
  const auto check = [=](const std::string& text) -> std::string {
    std::int64_t number = 0;
    if (parse(text, number) && number >= low && number <= high && number % multiple == 0) return {};
    return fmt::format("'{}' should be a {} from {} to {}.", text, kind, low, high);
  };
  return CLI::Validator(check, fmt::format("{}..{}", low, high));
}

CLI::Validator positive_number(double high) {
  const auto check = [=](const std::string& text) -> std::string {
    double number = 0;
    if (parse(text, number) && std::isfinite(number) && number > 0 && number <= high) return {};
    return fmt::format("'{}' should be a number above 0, at most {}.", text, high);
  };
  return CLI::Validator(check, fmt::format("above 0, to {}", high));
}

void add_routing_options(CLI::App& command, LayerSizes& shape) {
  command.add_option("--tokens", shape.tokens, "Tokens that each rank brings")
      ->check(whole_number(1, kMaxTokens));
  command.add_option("--experts", shape.experts, "Experts over all ranks, which --ranks divides")
      ->check(whole_number(1, kMaxExperts));
  command.add_option("--topk", shape.topk, "Experts that each token goes to")
      ->check(whole_number(1, kMaxTopk));
  command.add_option("--ranks", shape.ranks, "Virtual ranks of the expert-parallel group")
      ->check(whole_number(1, kMaxRanks));
}

void add_width_options(CLI::App& command, LayerSizes& shape) {
  command.add_option("--hidden", shape.hidden, "Hidden size, a multiple of 64")
      ->check(whole_number(64, kMaxWidth, 64));
  command.add_option("--intermediate", shape.intermediate, "Width of an expert, a multiple of 64")
      ->check(whole_number(64, kMaxWidth, 64));
}

void add_layer_options(CLI::App& command, LayerSizes& shape) {
  command
      .add_option("--shared", shape.shared_intermediate,
                  "Width of the shared expert, a multiple of 64; 0 = none")
      ->check(whole_number(0, kMaxWidth, 64));
  command.add_option("--minibatch", shape.minibatch, "Rows per step of the task order, a multiple of 128")
      ->check(whole_number(128, kMaxBatch, 128));
  command
      .add_option("--macrobatch", shape.macrobatch,
                  "Rows that rings and contexts hold, a multiple of --minibatch")
      ->check(whole_number(128, kMaxBatch, 128));
}

void check_shape(const LayerSizes& shape) {
  if (shape.topk > shape.experts) {
    throw UsageError(
        fmt::format("--topk {} is more than --experts {}: a token goes to each expert at most once.",
                    shape.topk, shape.experts));
  }
  if (shape.experts % shape.ranks != 0) {
    throw UsageError(fmt::format("--ranks {} does not divide --experts {}: every rank has as many experts.",
                                 shape.ranks, shape.experts));
  }
}

void check_memory(const std::string& what, double bytes) {
  const double available = available_memory();
  if (bytes > available) {
    throw UsageError(fmt::format("{} would take about {} of memory, and {} are free: choose smaller sizes.",
                                 what, human_bytes(bytes), human_bytes(available)));
  }
}

}  // namespace mok::tool
