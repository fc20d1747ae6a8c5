// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and a polite kill end a long run between two steps, so that no partial file is left behind.
#pragma once

namespace mok::tool {

/// Takes over SIGINT and SIGTERM, and ignores SIGPIPE, which then shows as a failed write. A third signal
/// ends the process at once.
void handle_interrupts();

/// \throws ToolError after a signal.
void throw_if_interrupted();

}  // namespace mok::tool
