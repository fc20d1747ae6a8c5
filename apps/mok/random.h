// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers that are the same bits on every machine: integer arithmetic and exact sums only. The
// distributions of the standard library differ from one library to the next.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mok::tool {

/// SplitMix64. `stream` separates uses of one seed, so that adding one use does not move another.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(seed) {
    state_ = next() ^ (stream * 0xD1342543DE82EF95ULL);
    next();
  }

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, n), for n below 2^32.
  std::uint64_t below(std::uint64_t n) { return ((next() >> 32) * n) >> 32; }

  /// Mean 0, variance 1, within +-6: the sum of twelve uniform numbers of 24 bits, which a double holds
  /// exactly.
  double normal() {
    std::uint64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += next() >> 40;
    return static_cast<double>(sum) * 0x1p-24 - 6.0;
  }

  /// Every order is equally likely.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace mok::tool
