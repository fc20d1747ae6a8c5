// SPDX-License-Identifier: Apache-2.0
#include "mok/atomic_file.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "mok/tool_error.h"

namespace mok::tool {
namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path target) : target_(std::move(target)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  // A rename would put a plain file in the place of a device such as /dev/null.
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw DataError(
        fmt::format("{} cannot be written: it is there and is not a regular file.", target_.string()));
  }
  if (!target_.has_filename()) {
    throw DataError(fmt::format("'{}' cannot be written: it does not name a file.", target_.string()));
  }
  temporary_ = target_;
  temporary_ += fmt::format(".{}.tmp", getpid());
  errno = 0;
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    const std::string reason = std::generic_category().message(errno);
    throw DataError(fmt::format("{} cannot be written: {}.", target_.string(), reason));
  }
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  stream_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  errno = 0;
  stream_.close();
  if (stream_.fail()) {
    const std::string reason = errno != 0 ? std::generic_category().message(errno) : "writing failed";
    throw DataError(fmt::format("{} cannot be written: {}.", target_.string(), reason));
  }
  std::error_code failure;
  fs::rename(temporary_, target_, failure);
  if (failure) throw DataError(fmt::format("{} cannot be written: {}.", target_.string(), failure.message()));
  committed_ = true;
}

}  // namespace mok::tool
