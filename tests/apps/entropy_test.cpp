// SPDX-License-Identifier: Apache-2.0
#include "mok/entropy.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace mok::tool {
namespace {

TEST(Entropy, OfOneByteIsZero) {
  EXPECT_EQ(unigram_entropy(pairs_of("aaaa")), 0);
  EXPECT_EQ(bigram_entropy(pairs_of("aaaa")), 0);
  EXPECT_EQ(unigram_entropy({}), 0);
  EXPECT_EQ(bigram_entropy({}), 0);
}

TEST(Entropy, OfAlternatingBytes) {
  // Of the bytes after the first, half are a and half are b; each follows from the one before it.
  const auto pairs = pairs_of("ababababa");
  EXPECT_DOUBLE_EQ(unigram_entropy(pairs), 1);
  EXPECT_DOUBLE_EQ(bigram_entropy(pairs), 0);
}

TEST(Entropy, OfKnownCounts) {
  // Pairs aa ab ba aa ab bc: bytes a a a b b c, and after a: a twice and b twice, after b: a and c.
  const auto pairs = pairs_of("aabaabc");
  EXPECT_NEAR(unigram_entropy(pairs), 0.5 * std::log2(2.0) + std::log2(3.0) / 3 + std::log2(6.0) / 6, 1e-12);
  EXPECT_NEAR(bigram_entropy(pairs), 1, 1e-12);
}

TEST(Entropy, SeesAllByteValues) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_DOUBLE_EQ(unigram_entropy(pairs_of(all + '\0')), 8);
}

TEST(Entropy, PairsOfACorpusStayInTheirFile) {
  Corpus corpus;
  corpus.files = {{"one", "xyab", 2}, {"two", "uvcd", 2}};
  corpus.context = 1;
  const auto pairs = pairs_of(corpus, corpus.held_out_positions());
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[0].before, 'y');
  EXPECT_EQ(pairs[0].byte, 'a');
  EXPECT_EQ(pairs[2].before, 'v');
  EXPECT_EQ(pairs[2].byte, 'c');
}

}  // namespace
}  // namespace mok::tool
