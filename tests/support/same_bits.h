// SPDX-License-Identifier: Apache-2.0
// Comparing tensors by their bits: NaN equals itself, and zeros have a sign.
#pragma once

#include <cstddef>
#include <cstring>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace mok::testing {

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Empty when two tensors have the same bits, else how many elements differ and what the first of them are.
inline std::string first_difference(const std::vector<float>& expected, const std::vector<float>& got) {
  if (expected.size() != got.size()) {
    std::ostringstream text;
    text << got.size() << " elements instead of " << expected.size();
    return text.str();
  }
  std::size_t first = got.size();
  std::size_t count = 0;
  for (std::size_t i = got.size(); i-- > 0;) {
    if (std::memcmp(&expected[i], &got[i], sizeof(float)) == 0) continue;
    first = i;
    ++count;
  }
  if (count == 0) return "";
  std::ostringstream text;
  text << count << " of " << got.size() << " elements differ; element " << first << " is "
       << std::setprecision(std::numeric_limits<float>::max_digits10) << got[first] << " instead of "
       << expected[first];
  return text.str();
}

}  // namespace mok::testing
