// SPDX-License-Identifier: Apache-2.0
#include "mok/cli.h"

#include <charconv>
#include <cmath>
#include <system_error>

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

CLI::Validator file_name() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        return text.empty() ? "The file name is empty; give one, or leave the option out." : "";
      },
      "");
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high, std::int64_t multiple) {
  const std::string kind = multiple == 1 ? "whole number" : fmt::format("multiple of {}", multiple);
  const auto check = [=](const std::string& text) -> std::string {
    std::int64_t number = 0;
    if (parse(text, number) && number >= low && number <= high && number % multiple == 0) return {};
    return fmt::format("'{}' should be a {} from {} to {}.", text, kind, low, high);
  };
  return CLI::Validator(check, "");
}

CLI::Option* add_whole_number(CLI::App& command, const std::string& name, std::int64_t& value,
                              const std::string& description, std::int64_t low, std::int64_t high,
                              std::int64_t multiple) {
  return command.add_option(name, value, description)
      ->option_text(fmt::format("N [{}]", value))
      ->check(whole_number(low, high, multiple));
}

CLI::Option* add_positive_number(CLI::App& command, const std::string& name, double& value,
                                 const std::string& description, double high) {
  const auto check = [=](const std::string& text) -> std::string {
    double number = 0;
    if (parse(text, number) && std::isfinite(number) && number > 0 && number <= high) return {};
    return fmt::format("'{}' should be a number above 0, at most {}.", text, high);
  };
  return command.add_option(name, value, description)
      ->option_text(fmt::format("X [{}]", value))
      ->check(check, "");
}

void add_routing_options(CLI::App& command, LayerSizes& shape) {
  add_whole_number(command, "--ranks", shape.ranks, "Virtual ranks of the expert-parallel group", 1,
                   kMaxRanks);
  add_whole_number(command, "--tokens", shape.tokens, "Tokens that each rank brings", 1, kMaxTokens);
  add_whole_number(command, "--experts", shape.experts, "Experts over all ranks, which --ranks divides", 1,
                   kMaxExperts);
  add_whole_number(command, "--topk", shape.topk, "Experts that each token goes to", 1, kMaxTopk);
}

void add_width_options(CLI::App& command, LayerSizes& shape) {
  add_whole_number(command, "--hidden", shape.hidden, "Hidden size, a multiple of 64", 64, kMaxWidth, 64);
  add_whole_number(command, "--intermediate", shape.intermediate, "Width of an expert, a multiple of 64", 64,
                   kMaxWidth, 64);
}

void add_layer_options(CLI::App& command, LayerSizes& shape) {
  add_whole_number(command, "--shared", shape.shared_intermediate,
                   "Width of the shared expert, a multiple of 64; 0 = none", 0, kMaxWidth, 64);
  const Config library;
  add_whole_number(command, "--minibatch", shape.minibatch,
                   "Rows per step of the task order, a multiple of 128", 128, kMaxBatch, 128)
      ->option_text(fmt::format("N [{}]", library.minibatch_size));
  add_whole_number(command, "--macrobatch", shape.macrobatch,
                   "Rows that rings and contexts hold, a multiple of --minibatch", 128, kMaxBatch, 128)
      ->option_text(fmt::format("N [{}]", library.macrobatch_size));
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
