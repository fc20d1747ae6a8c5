// SPDX-License-Identifier: Apache-2.0
// What `mok check` says about a comparison.
#pragma once

#include <string>
#include <vector>

#include "reference/bound.h"

namespace mok::tool {

/// One line per output and gradient: its distance from the reference beside what it may be, by norm and for
/// the worst row, and "pass" or "FAIL". \param has_shared whether there is a shared expert, whose gradients
/// are left out otherwise.
std::string check_table(const std::vector<reference::TensorReport>& reports, bool has_shared);

/// \throws DataError naming the tensors that do not pass.
void require_all_pass(const std::vector<reference::TensorReport>& reports);

}  // namespace mok::tool
