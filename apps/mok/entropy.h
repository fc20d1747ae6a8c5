// SPDX-License-Identifier: Apache-2.0
// What no model can beat that knows a byte alone, or a byte and the one before it.
//
// Both entropies are those of the text's own counts: the cross-entropy, on this very text, of the best
// unigram or bigram model there could be, one fitted to the text that it is tested on. A model fitted to
// other text does worse.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mok/text.h"

namespace mok::tool {

/// A byte and the one before it.
struct BytePair {
  std::uint8_t before = 0;
  std::uint8_t byte = 0;
};

/// Every byte of `bytes` but the first, with the one before it.
std::vector<BytePair> pairs_of(std::string_view bytes);
/// The bytes at `positions` of a corpus, each with the one before it.
std::vector<BytePair> pairs_of(const Corpus& corpus, std::span<const Position> positions);

/// Bits per byte: -sum of p(byte) log2 p(byte).
double unigram_entropy(std::span<const BytePair> pairs);
/// Bits per byte: -sum of p(before, byte) log2 p(byte | before).
double bigram_entropy(std::span<const BytePair> pairs);

}  // namespace mok::tool
