// SPDX-License-Identifier: Apache-2.0
#include "mok/text.h"

#include <gtest/gtest.h>

#include "mok/tool_error.h"
#include "run_tool.h"

namespace mok::tool {
namespace {

std::string failure_of(const std::vector<std::filesystem::path>& paths, std::int64_t context) {
  try {
    load_corpus(paths, context);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no failure";
}

TEST(Text, HoldsOutTheLastTenthOfEachFile) {
  const Scratch scratch;
  const Corpus corpus =
      load_corpus({scratch.file("a", std::string(100, 'a')), scratch.file("b", "0123456789")}, 4);
  ASSERT_EQ(corpus.files.size(), 2U);
  EXPECT_EQ(corpus.files[0].held_out_begin, 90U);
  EXPECT_EQ(corpus.files[1].held_out_begin, 9U);
  EXPECT_EQ(corpus.size(), 110);
}

TEST(Text, HoldsOutAtMost64KiBOfAFile) {
  const Scratch scratch;
  const Corpus corpus = load_corpus({scratch.file("a", std::string(2'000'000, 'a'))}, 4);
  EXPECT_EQ(corpus.held_out_positions().size(), std::size_t{64} << 10);
}

TEST(Text, EveryByteIsPredictedOnceAndNoContextCrossesFiles) {
  const Scratch scratch;
  const Corpus corpus =
      load_corpus({scratch.file("a", std::string(40, 'a')), scratch.file("b", "0123456789")}, 4);
  std::vector<int> seen(80);
  for (const auto& positions : {corpus.training_positions(), corpus.held_out_positions()}) {
    for (const Position& position : positions) {
      EXPECT_GE(position.offset, 4U);
      ++seen[position.file * std::size_t{40} + position.offset];
    }
  }
  for (std::size_t i = 4; i < 40; ++i) EXPECT_EQ(seen[i], 1) << i;
  for (std::size_t i = 4; i < 10; ++i) EXPECT_EQ(seen[40 + i], 1) << i;
  for (const Position& position : corpus.training_positions()) {
    EXPECT_LT(position.offset, corpus.files[position.file].held_out_begin);
  }
}

TEST(Text, AFileNamedTwiceIsTakenOnce) {
  const Scratch scratch;
  const std::string file = scratch.text("a", 200);
  std::filesystem::create_symlink(file, scratch.path("link"));
  EXPECT_EQ(load_corpus({file, scratch.path("link"), file}, 8).files.size(), 1U);
}

TEST(Text, RefusesWhatIsNoText) {
  const Scratch scratch;
  EXPECT_NE(failure_of({"/nowhere/text"}, 8).find("/nowhere/text does not exist"), std::string::npos);
  EXPECT_NE(failure_of({scratch.file("e", "")}, 8).find("is empty"), std::string::npos);
  EXPECT_NE(failure_of({scratch.path("")}, 8).find("is a directory"), std::string::npos);
  EXPECT_NE(failure_of({"/dev/null"}, 8).find("is not a regular file"), std::string::npos);
  const std::string nul(std::string(50, 'a') + '\0' + std::string(50, 'a'));
  EXPECT_NE(failure_of({scratch.file("n", nul)}, 8).find("is not text: byte 50 is NUL"), std::string::npos);
  std::string noise;
  for (int i = 0; i < 600; ++i) noise += static_cast<char>(1 + (i * 97) % 255);
  EXPECT_NE(failure_of({scratch.file("b", noise)}, 8).find("is not text"), std::string::npos);
}

TEST(Text, RefusesATextThatIsTooShort) {
  const Scratch scratch;
  const std::string nine = scratch.file("nine", "123456789");
  const std::string ten = scratch.file("ten", "1234567890");
  EXPECT_NE(failure_of({nine}, 8).find("too short"), std::string::npos);
  EXPECT_EQ(failure_of({ten}, 8), "no failure");
  EXPECT_EQ(load_corpus({ten}, 8).training_positions().size(), 1U);
}

TEST(Text, AcceptsUtf8AndOlderEncodings) {
  EXPECT_EQ(why_not_text("größer – 大きい\t\r\n\f"), "");
  EXPECT_EQ(why_not_text("gr\xf6\xdf"
                         "er, written in Latin-1 as ever"),
            "");
  EXPECT_NE(why_not_text("\xe5\xa4"), "");
}

TEST(Text, TheDefaultTextsAreFilesTakenOnce) {
  if (!std::filesystem::exists("/usr/share/common-licenses"))
    GTEST_SKIP() << "this machine has no default text";
  const auto files = default_text_files();
  for (const auto& file : files) EXPECT_FALSE(std::filesystem::is_symlink(file)) << file;
  EXPECT_EQ(load_corpus(files, 8).files.size(), files.size());
}

}  // namespace
}  // namespace mok::tool
