// SPDX-License-Identifier: Apache-2.0
#include "mok/human.h"

#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace mok::tool {

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits.at(unit));
}

std::string minutes_seconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds < 0 ? 0 : seconds));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace mok::tool
