// SPDX-License-Identifier: Apache-2.0
// Bars of text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mok::tool {

/// A bar of `fraction` of `width` columns, in eighths of a column. Fractions outside [0, 1] are clamped.
std::string bar(double fraction, int width);

/// One line per expert: its number, a bar relative to the fullest expert, and its share of all routes.
std::vector<std::string> load_chart(std::span<const std::int64_t> load, int width);

/// How even a load is.
struct Balance {
  double max_over_mean = 0;  ///< 1 = even
  double entropy = 0;  ///< of the shares, as part of its largest value: 1 = even, 0 = one expert has all
};
Balance balance_of(std::span<const std::int64_t> load);

}  // namespace mok::tool
