// SPDX-License-Identifier: Apache-2.0
// How the API says no.
#pragma once

#include <utility>

#include <fmt/format.h>

#include <mok/error.h>

namespace mok::api {

/// \throws InvalidArgument
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw InvalidArgument(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace mok::api
