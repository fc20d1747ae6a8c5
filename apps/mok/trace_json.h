// SPDX-License-Identifier: Apache-2.0
// What reader and writer of routing traces share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mok::tool {

/// JSON whose numbers are float32: weights are written with as few digits as give the same bits back, and
/// read without rounding twice.
using FloatJson =
    nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t, float>;

inline constexpr const char* kTraceFormat = "mok-routing-trace";
inline constexpr std::int64_t kTraceVersion = 1;

}  // namespace mok::tool
