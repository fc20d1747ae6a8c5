// SPDX-License-Identifier: Apache-2.0
// What the library throws. Every text is a sentence that names the argument, its value and what would do.
#pragma once

#include <stdexcept>
#include <string>

namespace mok {

/// Base of everything that the library throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument that cannot be used: wrong shape, dtype, device or stride, a context of another schedule, ...
/// Thrown before anything is written.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The routing cannot be run: more rows on a rank than its capacity, or an expert id out of range.
/// Passes do not throw it (they write NaN and go on, as they must on a GPU); Workspace::check() does.
class RoutingError : public Error {
 public:
  using Error::Error;
};

/// A wait inside a pass ran into its deadline. All outputs of the pass are NaN, main_grads too (some of their
/// elements may have been added to); Workspace::reset() makes the workspace usable again.
class DeadlineExceeded : public Error {
 public:
  using Error::Error;
};

}  // namespace mok
