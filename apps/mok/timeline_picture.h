// SPDX-License-Identifier: Apache-2.0
// A recorded pass as a picture: a line for each worker, a colour for each op, time from left to right.
#pragma once

#include <cstddef>
#include <string>

#include "mok/timeline_summary.h"

namespace mok::tool {

/// The most bytes that a picture should have.
inline constexpr std::size_t kPictureBytes = 900'000;

/// An SVG, readable on white and on dark ground. What is shorter than a dot is drawn as one, and gaps shorter
/// than a dot are not seen; where the picture would become too large, dots become wider.
/// \param title says what was run. \param device says where.
std::string timeline_picture(const TimelineSummary& summary, const std::string& title,
                             const std::string& device, std::size_t most_bytes = kPictureBytes);

}  // namespace mok::tool
