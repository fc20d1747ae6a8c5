// SPDX-License-Identifier: Apache-2.0
// Where a layer runs: --device and what to say about it.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <mok/tensor.h>

namespace mok::tool {

/// --device: `name` becomes "cpu", "cuda" or "cuda:N". Anything else is refused while parsing. \param
/// fallback what stands in the help for a device that is not named.
CLI::Option* add_device_option(CLI::App& command, std::string& name, const std::string& fallback);

/// The device of a name that the option has accepted; without a name, the one that default_device() finds.
/// That it is there is the library's to say.
Device device_named(const std::string& name);

/// The first GPU where the library can run on it, else the CPU.
Device default_device();

/// "cpu (its model, 2 cores)", "cuda:0 (its model, 132 SMs)".
std::string describe(const Device& device);

}  // namespace mok::tool
