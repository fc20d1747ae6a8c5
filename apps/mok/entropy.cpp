// SPDX-License-Identifier: Apache-2.0
#include "mok/entropy.h"

#include <array>
#include <cmath>
#include <string>

namespace mok::tool {

std::vector<BytePair> pairs_of(std::string_view bytes) {
  std::vector<BytePair> pairs;
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    pairs.push_back({static_cast<std::uint8_t>(bytes[i - 1]), static_cast<std::uint8_t>(bytes[i])});
  }
  return pairs;
}

std::vector<BytePair> pairs_of(const Corpus& corpus, std::span<const Position> positions) {
  std::vector<BytePair> pairs;
  pairs.reserve(positions.size());
  for (const Position& position : positions) {
    const std::string& bytes = corpus.files[position.file].bytes;
    pairs.push_back({static_cast<std::uint8_t>(bytes[position.offset - 1]),
                     static_cast<std::uint8_t>(bytes[position.offset])});
  }
  return pairs;
}

double unigram_entropy(std::span<const BytePair> pairs) {
  std::array<std::int64_t, 256> counts{};
  for (const BytePair& pair : pairs) ++counts[pair.byte];
  const auto total = static_cast<double>(pairs.size());
  double bits = 0;
  for (const std::int64_t count : counts) {
    const auto n = static_cast<double>(count);
    if (count > 0) bits += n / total * std::log2(total / n);
  }
  return bits;
}

double bigram_entropy(std::span<const BytePair> pairs) {
  std::vector<std::int64_t> counts(std::size_t{256} * 256);
  std::array<std::int64_t, 256> before_counts{};
  for (const BytePair& pair : pairs) {
    ++counts[std::size_t{pair.before} * 256 + pair.byte];
    ++before_counts[pair.before];
  }
  const auto total = static_cast<double>(pairs.size());
  double bits = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto n = static_cast<double>(counts[i]);
    if (counts[i] > 0) bits += n / total * std::log2(static_cast<double>(before_counts[i / 256]) / n);
  }
  return bits;
}

}  // namespace mok::tool
