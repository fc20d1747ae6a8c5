// SPDX-License-Identifier: Apache-2.0
#include "mok/output.h"

#include <cstdio>

#include "mok/tool_error.h"

namespace mok::tool {

void flush_output() {
  // The error flag too: a line buffer may have failed to go out before.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw ToolError(kExitFailed, "The output could not be written.");
  }
}

}  // namespace mok::tool
