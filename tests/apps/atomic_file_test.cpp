// SPDX-License-Identifier: Apache-2.0
#include "mok/atomic_file.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "mok/tool_error.h"
#include "run_tool.h"

namespace mok::tool {
namespace {

TEST(AtomicFile, AppearsWholeOnCommit) {
  const Scratch scratch;
  AtomicFile file(scratch.path("target"));
  file.stream() << "content";
  EXPECT_FALSE(std::filesystem::exists(scratch.path("target")));
  file.commit();
  EXPECT_EQ(read_file(scratch.path("target")), "content");
  EXPECT_EQ(scratch.files(), 1U);
}

TEST(AtomicFile, WithoutCommitLeavesTheTargetAsItWas) {
  const Scratch scratch;
  const std::string target = scratch.file("target", "before");
  { AtomicFile(target).stream() << "after"; }
  EXPECT_EQ(read_file(target), "before");
  EXPECT_EQ(scratch.files(), 1U);
}

TEST(AtomicFile, RefusesAtOnceWhatCannotBeWritten) {
  const Scratch scratch;
  EXPECT_THROW(AtomicFile(scratch.path("no-folder") / "target"), DataError);
  EXPECT_THROW(AtomicFile(scratch.path("")), DataError);
  EXPECT_THROW(AtomicFile("/dev/null"), DataError);
  EXPECT_EQ(scratch.files(), 0U);
}

TEST(AtomicFile, AFailedWriteShowsAtCommit) {
  const Scratch scratch;
  AtomicFile file(scratch.path("target"));
  file.stream().setstate(std::ios::badbit);  // as a failed write leaves it
  EXPECT_THROW(file.commit(), DataError);
  EXPECT_FALSE(std::filesystem::exists(scratch.path("target")));
}

}  // namespace
}  // namespace mok::tool
