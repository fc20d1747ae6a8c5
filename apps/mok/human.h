// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace mok::tool {

/// 1234567 -> "1,234,567".
std::string grouped(std::int64_t number);
/// 1572864 -> "1.5 MiB"; below 1024 "512 B".
std::string human_bytes(double bytes);
/// 75.2 -> "1:15".
std::string minutes_seconds(double seconds);

}  // namespace mok::tool
