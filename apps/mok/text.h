// SPDX-License-Identifier: Apache-2.0
// The text that a model is trained on: files read whole, each cut into a training and a held-out part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mok::tool {

struct TextFile {
  std::string name;
  std::string bytes;
  std::size_t held_out_begin = 0;  ///< the held-out part is the rest of the file from here
};

/// A byte to predict: bytes[offset] of a file, from the bytes before it.
struct Position {
  std::uint32_t file = 0;
  std::uint32_t offset = 0;
};

struct Corpus {
  std::vector<TextFile> files;
  std::int64_t context = 0;  ///< bytes that a prediction looks back

  [[nodiscard]] std::int64_t size() const;
  /// Every byte of a training part that has a whole context before it.
  [[nodiscard]] std::vector<Position> training_positions() const;
  /// Every byte of a held-out part. Its context may reach back into the training part, as text to continue
  /// would.
  [[nodiscard]] std::vector<Position> held_out_positions() const;
};

/// The regular files of /usr/share/common-licenses in order of their names; those that symbolic links name
/// twice are taken once. \throws DataError when there are none.
std::vector<std::filesystem::path> default_text_files();

/// The last tenth of each file is held out: at least one byte, at most 64 KiB. The same file given twice is
/// taken once. \throws DataError naming the file: missing, a directory, empty, not text, or too short for
/// `context`.
Corpus load_corpus(const std::vector<std::filesystem::path>& paths, std::int64_t context);

/// Why `bytes` are not text, or an empty string: a NUL byte, or more than a tenth of the bytes control
/// characters or no UTF-8 (text in an older 8-bit encoding has fewer).
std::string why_not_text(std::string_view bytes);

}  // namespace mok::tool
