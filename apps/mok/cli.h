// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: how they are added, and checks of their arguments. Out-of-range arguments are
// refused while parsing, with the option's name, so that no size is ever computed from them.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "mok/layer_setup.h"

namespace mok::tool {

/// A file name that is not empty: an unset shell variable must not pass for an option left out.
CLI::Validator file_name();

/// Adds a subcommand. Parsing runs it when it is chosen, and sets `exit_status`.
void add_train(CLI::App& app, int& exit_status);
void add_check(CLI::App& app, int& exit_status);
void add_trace(CLI::App& app, int& exit_status);
void add_doctor(CLI::App& app, int& exit_status);

/// Refuses anything but a whole number in [low, high] that is a multiple of `multiple`.
CLI::Validator whole_number(std::int64_t low, std::int64_t high, std::int64_t multiple = 1);

/// An option for a whole number in [low, high] that is a multiple of `multiple`. Help shows its default.
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, std::int64_t& value,
                              const std::string& description, std::int64_t low, std::int64_t high,
                              std::int64_t multiple = 1);
/// An option for a finite number above 0 and up to `high`.
CLI::Option* add_positive_number(CLI::App& command, const std::string& name, double& value,
                                 const std::string& description, double high);

inline constexpr std::int64_t kMaxRanks = 64;
inline constexpr std::int64_t kMaxTokens = 1 << 24;
inline constexpr std::int64_t kMaxWidth = 1 << 16;
inline constexpr std::int64_t kMaxExperts = 1 << 14;
inline constexpr std::int64_t kMaxTopk = 1 << 8;
inline constexpr std::int64_t kMaxBatch = 1 << 30;  ///< of minibatch and macrobatch rows

/// The routing's sizes: --tokens, --experts, --topk, --ranks.
void add_routing_options(CLI::App& command, LayerSizes& shape);
/// --hidden, --intermediate.
void add_width_options(CLI::App& command, LayerSizes& shape);
/// --shared, --minibatch, --macrobatch.
void add_layer_options(CLI::App& command, LayerSizes& shape);

/// \throws UsageError when topk exceeds experts or ranks do not divide experts.
void check_shape(const LayerSizes& shape);
/// \throws UsageError when `bytes` are more than this machine has free. `what` begins the sentence.
void check_memory(const std::string& what, double bytes);

}  // namespace mok::tool
