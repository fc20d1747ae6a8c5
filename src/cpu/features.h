// SPDX-License-Identifier: Apache-2.0
// Instruction sets that the CPU backend was compiled for.
#pragma once

namespace mok::cpu {

/// Empty when this machine can run the CPU backend; else a sentence that says what is missing.
const char* missing_features();

}  // namespace mok::cpu
