// SPDX-License-Identifier: Apache-2.0
// Standard output that is checked.
#pragma once

namespace mok::tool {

/// Writes out what has been printed.
/// \throws ToolError when that fails (a full disk, a reader that has gone): long work for nobody should end.
void flush_output();

}  // namespace mok::tool
