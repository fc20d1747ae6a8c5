// SPDX-License-Identifier: Apache-2.0
// A file that is either complete or not there.
#pragma once

#include <filesystem>
#include <fstream>

namespace mok::tool {

/// Writes to a temporary beside the target and renames it on commit(). Without commit() the target stays as
/// it was and the temporary is removed.
class AtomicFile {
 public:
  /// \throws DataError when the target cannot be written, before any work is done for it.
  explicit AtomicFile(std::filesystem::path target);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  [[nodiscard]] std::ostream& stream() { return stream_; }
  /// \throws DataError when something could not be written (a full disk shows here).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  bool committed_ = false;
};

}  // namespace mok::tool
