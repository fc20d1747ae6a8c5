// SPDX-License-Identifier: Apache-2.0
#include "mok/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace mok::tool {

std::string bar(double fraction, int width) {
  constexpr std::array<const char*, 8> kPartial = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto eighths = static_cast<int>(std::lround(clamped * width * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kPartial.at(static_cast<std::size_t>(eighths % 8));
  return text;
}

std::vector<std::string> load_chart(std::span<const std::int64_t> load, int width) {
  std::vector<std::string> lines;
  const auto total = static_cast<double>(std::accumulate(load.begin(), load.end(), std::int64_t{0}));
  const std::int64_t most = load.empty() ? 0 : *std::max_element(load.begin(), load.end());
  const std::size_t digits = fmt::format("{}", load.size()).size();
  for (std::size_t e = 0; e < load.size(); ++e) {
    const auto routes = static_cast<double>(load[e]);
    // fmt counts columns, not bytes, so the padding is right for the bars too.
    lines.push_back(fmt::format("expert {:>{}}  {:<{}}  {:5.1f} %", e, digits,
                                bar(most == 0 ? 0 : routes / static_cast<double>(most), width), width,
                                total == 0 ? 0 : 100 * routes / total));
  }
  return lines;
}

Balance balance_of(std::span<const std::int64_t> load) {
  const auto total = static_cast<double>(std::accumulate(load.begin(), load.end(), std::int64_t{0}));
  if (total == 0) return {};
  const auto experts = static_cast<double>(load.size());
  double entropy = 0;
  for (const std::int64_t routes : load) {
    const double share = static_cast<double>(routes) / total;
    if (routes > 0) entropy -= share * std::log(share);
  }
  const auto most = static_cast<double>(*std::max_element(load.begin(), load.end()));
  return {most * experts / total, load.size() > 1 ? entropy / std::log(experts) : 1.0};
}

}  // namespace mok::tool
