// SPDX-License-Identifier: Apache-2.0
// Which backends this build and this machine can run.
#pragma once

#include <string>
#include <vector>

namespace mok {

struct BackendInfo {
  std::string name;        ///< "cpu", "cuda"
  bool available = false;  ///< can run on this machine
  std::string reason;      ///< a sentence: why it can, or what is missing
};

/// All backends that exist, in order of preference for the user to read.
[[nodiscard]] std::vector<BackendInfo> backends();

}  // namespace mok
