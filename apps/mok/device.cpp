// SPDX-License-Identifier: Apache-2.0
#include "mok/device.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <mok/backend.h>

#include "mok/machine.h"

namespace mok::tool {

namespace {

constexpr std::string_view kGpuPrefix = "cuda:";

std::optional<Device> parse(std::string_view name) {
  if (name == "cpu") return Device{};
  if (name == "cuda") return Device{DeviceType::cuda, 0};
  if (!name.starts_with(kGpuPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kGpuPrefix.size());
  Device device{DeviceType::cuda, 0};
  const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
  const bool whole = failure == std::errc{} && stop == digits.data() + digits.size() && device.index >= 0;
  return whole ? std::optional(device) : std::nullopt;
}

std::optional<BackendInfo> usable_gpu() {
  const std::vector<BackendInfo> all = backends();
  const auto found = std::find_if(
      all.begin(), all.end(), [](const BackendInfo& info) { return info.name == "cuda" && info.available; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

CLI::Option* add_device_option(CLI::App& command, std::string& name, const std::string& fallback) {
  const auto check = [](const std::string& text) -> std::string {
    if (parse(text)) return {};
    return fmt::format("'{}' should be cpu, cuda, or cuda:N for the GPU of that number.", text);
  };
  return command.add_option("--device", name, "Where the layer runs: cpu, cuda or cuda:N")
      ->option_text(fmt::format("NAME [{}]", fallback))
      ->check(check, "");
}

Device device_named(const std::string& name) {
  const std::optional<Device> device = parse(name);
  return device ? *device : default_device();
}

Device default_device() { return usable_gpu() ? Device{DeviceType::cuda, 0} : Device{}; }

std::string describe(const Device& device) {
  if (device.type == DeviceType::cpu) {
    const Machine machine = inspect_machine();
    return fmt::format("cpu ({}, {} cores)",
                       machine.cpu_model.empty() ? "of unknown model" : machine.cpu_model, machine.cores);
  }
  // The library tells of the first GPU alone.
  const std::optional<BackendInfo> gpu = device.index == 0 ? usable_gpu() : std::nullopt;
  return gpu ? fmt::format("cuda:0 ({})", gpu->reason) : fmt::format("cuda:{}", device.index);
}

}  // namespace mok::tool
