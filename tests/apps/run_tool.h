// SPDX-License-Identifier: Apache-2.0
// Running the tool's binary, and files to run it on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace mok::tool {

struct ToolRun {
  int status = -1;  ///< exit status; 128 + signal when one ended it
  std::string out;
  std::string err;
};

/// Runs `mok` with these arguments, under another command where `prefix` names one.
ToolRun run_tool(const std::vector<std::string>& arguments, const std::string& prefix = "");

/// Whether `run` failed as it should: this status, nothing but one line on stderr, and that with each of
/// `parts`.
testing::AssertionResult failed_with(const ToolRun& run, int status,
                                     const std::vector<std::string_view>& parts);

std::string read_file(const std::filesystem::path& path);

/// A folder that is removed at the end of a test.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, std::string_view content) const;
  /// A text file of about `bytes` bytes.
  [[nodiscard]] std::string text(const std::string& name, std::size_t bytes) const;
  [[nodiscard]] std::size_t files() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace mok::tool
