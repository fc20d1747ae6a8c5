// SPDX-License-Identifier: Apache-2.0
#include "run_tool.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <system_error>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mok::tool {
namespace fs = std::filesystem;

namespace {
std::string quoted(const std::string& argument) {
  std::string result = "'";
  for (const char c : argument) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}
}  // namespace

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

ToolRun run_tool(const std::vector<std::string>& arguments, const std::string& prefix) {
  const Scratch scratch;
  std::string command = prefix + " " + quoted(MOK_TOOL_PATH);
  for (const std::string& argument : arguments) command += ' ' + quoted(argument);
  command +=
      fmt::format(" > {} 2> {}", quoted(scratch.path("out").string()), quoted(scratch.path("err").string()));
  const int status = std::system(command.c_str());
  ToolRun run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read_file(scratch.path("out"));
  run.err = read_file(scratch.path("err"));
  return run;
}

testing::AssertionResult failed_with(const ToolRun& run, int status,
                                     const std::vector<std::string_view>& parts) {
  const auto failure = [&](std::string_view what) {
    return testing::AssertionFailure() << what << "; status " << run.status << ", stderr: " << run.err;
  };
  if (run.status != status) return failure(fmt::format("the status should be {}", status));
  if (!run.err.starts_with("mok: ") || !run.err.ends_with(".\n"))
    return failure("stderr should be a sentence");
  if (run.err.find('\n') + 1 != run.err.size()) return failure("stderr should be one line");
  for (const std::string_view part : parts) {
    if (run.err.find(part) == std::string::npos) return failure(fmt::format("stderr should have '{}'", part));
  }
  return testing::AssertionSuccess();
}

Scratch::Scratch() {
  static std::atomic<int> count = 0;
  folder_ = fs::temp_directory_path() / fmt::format("mok-test-{}-{}", getpid(), count++);
  fs::create_directories(folder_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Scratch::file(const std::string& name, std::string_view content) const {
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name).string();
}

std::string Scratch::text(const std::string& name, std::size_t bytes) const {
  std::minstd_rand random(7);  // its numbers are fixed by the standard
  const std::vector<std::string_view> words = {"expert", "gate",  "up",     "down",
                                               "rank",   "token", "router", "route"};
  std::string content;
  while (content.size() < bytes) {
    content += words[random() % words.size()];
    content += random() % 8 == 0 ? ".\n" : " ";
  }
  return file(name, content);
}

std::size_t Scratch::files() const {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
}

}  // namespace mok::tool
