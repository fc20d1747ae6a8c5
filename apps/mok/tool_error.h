// SPDX-License-Identifier: Apache-2.0
// How the tool fails: a sentence for stderr and an exit status.
#pragma once

#include <stdexcept>
#include <string>

namespace mok::tool {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< a check failed, or data cannot be used
inline constexpr int kExitUsage = 2;   ///< arguments that cannot be used
inline constexpr int kExitInterrupted = 130;

/// Carries a whole sentence. Only main() catches it.
class ToolError : public std::runtime_error {
 public:
  ToolError(int exit_status, const std::string& sentence)
      : std::runtime_error(sentence), exit_status_(exit_status) {}
  [[nodiscard]] int exit_status() const { return exit_status_; }

 private:
  int exit_status_;
};

/// Data that cannot be used, or a result that must not be.
class DataError : public ToolError {
 public:
  explicit DataError(const std::string& sentence) : ToolError(kExitFailed, sentence) {}
};

/// Arguments that cannot be used.
class UsageError : public ToolError {
 public:
  explicit UsageError(const std::string& sentence) : ToolError(kExitUsage, sentence) {}
};

}  // namespace mok::tool
