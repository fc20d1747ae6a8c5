// SPDX-License-Identifier: Apache-2.0
// The arguments of `mok train`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "mok/cli.h"

namespace mok::tool {

struct TrainArguments {
  std::vector<std::filesystem::path> text;
  LayerSizes shape;
  std::int64_t context = 8;
  std::int64_t steps = 1200;
  std::int64_t seed = 1;
  std::int64_t workers = 0;
  double learning_rate = 0.003;
  double balance = 0.03;  ///< weight of the load-balancing loss
  std::filesystem::path trace;
  std::vector<std::int64_t> trace_steps;
  std::int64_t trace_every = 0;
  std::string device = "cpu";
  bool quiet = false;

  TrainArguments();
  void add_to(CLI::App& command);
  /// What parsing an option at a time cannot see.
  /// \throws UsageError
  void check() const;

  [[nodiscard]] std::int64_t tokens_per_step() const { return shape.ranks * shape.tokens; }
  /// `shape` with the tokens that the held-out text is predicted with, where those are more.
  [[nodiscard]] LayerSizes layer_sizes() const;
  /// Threads of the tool's own algebra.
  [[nodiscard]] int threads() const;
  /// Whether a step belongs into the trace.
  [[nodiscard]] bool traces(std::int64_t step) const;
};

}  // namespace mok::tool
