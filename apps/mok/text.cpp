// SPDX-License-Identifier: Apache-2.0
#include "mok/text.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "mok/human.h"
#include "mok/tool_error.h"

namespace mok::tool {
namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultDirectory = "/usr/share/common-licenses";
// Keeps a Position in 32 bits and a slip (a disk image for a text) from filling the memory.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
// More would take longer to predict than it tells.
constexpr std::size_t kMaxHeldOut = 64 << 10;

/// Bytes of the UTF-8 character at the start of `bytes`, 0 when there is none.
std::size_t utf8_length(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t length = lead < 0x80             ? 1
                             : (lead & 0xE0) == 0xC0 ? 2
                             : (lead & 0xF0) == 0xE0 ? 3
                             : (lead & 0xF8) == 0xF0 ? 4
                                                     : 0;
  if (length == 0 || length > bytes.size()) return 0;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  return std::all_of(bytes.begin() + 1, bytes.begin() + static_cast<std::ptrdiff_t>(length), continues)
             ? length
             : 0;
}

std::string read_file(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) throw DataError(fmt::format("Text file {} does not exist.", path.string()));
  if (fs::is_directory(status)) {
    throw DataError(fmt::format("{} is a directory: name the text files in it.", path.string()));
  }
  if (!fs::is_regular_file(status)) throw DataError(fmt::format("{} is not a regular file.", path.string()));
  const auto bytes = static_cast<double>(fs::file_size(path, failure));
  if (bytes > static_cast<double>(kMaxBytes)) {
    throw DataError(
        fmt::format("Text file {} is too long: it has {}, and {} is the most for all files together.",
                    path.string(), human_bytes(bytes), human_bytes(static_cast<double>(kMaxBytes))));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw DataError(fmt::format("Text file {} cannot be read.", path.string()));
  return content;
}

TextFile load_file(const fs::path& path, std::int64_t context) {
  TextFile file{path.string(), read_file(path), 0};
  if (file.bytes.empty()) throw DataError(fmt::format("Text file {} is empty.", file.name));
  if (const std::string reason = why_not_text(file.bytes); !reason.empty()) {
    throw DataError(fmt::format("{} is not text: {}.", file.name, reason));
  }
  const std::size_t held_out = std::clamp<std::size_t>(file.bytes.size() / 10, 1, kMaxHeldOut);
  file.held_out_begin = file.bytes.size() - held_out;
  // At least one byte to train on, and one held out, each with a context before it.
  if (file.held_out_begin < static_cast<std::size_t>(context) + 1) {
    throw DataError(
        fmt::format("Text file {} is too short: its {} bytes do not leave a context of {} bytes, one byte to "
                    "train on and a "
                    "tenth that is held out.",
                    file.name, file.bytes.size(), context));
  }
  return file;
}

}  // namespace

std::string why_not_text(std::string_view bytes) {
  if (const std::size_t nul = bytes.find('\0'); nul != std::string_view::npos) {
    return fmt::format("byte {} is NUL", nul);
  }
  std::size_t odd = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_length(bytes.substr(i));
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool control = (byte < 0x20 && (byte < 0x08 || byte > 0x0D) && byte != 0x1B) || byte == 0x7F;
    if (length == 0 || control) ++odd;
    i += std::max<std::size_t>(1, length);
  }
  if (odd * 10 <= bytes.size()) return {};
  return fmt::format("{} of its {} bytes are neither printable nor UTF-8", odd, bytes.size());
}

std::int64_t Corpus::size() const {
  std::int64_t total = 0;
  for (const TextFile& file : files) total += static_cast<std::int64_t>(file.bytes.size());
  return total;
}

std::vector<Position> Corpus::training_positions() const {
  std::vector<Position> positions;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (auto i = static_cast<std::size_t>(context); i < files[f].held_out_begin; ++i) {
      positions.push_back({static_cast<std::uint32_t>(f), static_cast<std::uint32_t>(i)});
    }
  }
  return positions;
}

std::vector<Position> Corpus::held_out_positions() const {
  std::vector<Position> positions;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (std::size_t i = files[f].held_out_begin; i < files[f].bytes.size(); ++i) {
      positions.push_back({static_cast<std::uint32_t>(f), static_cast<std::uint32_t>(i)});
    }
  }
  return positions;
}

std::vector<fs::path> default_text_files() {
  std::set<fs::path> files;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDefaultDirectory, failure)) {
    if (entry.is_regular_file(failure)) files.insert(fs::canonical(entry.path(), failure));
  }
  if (files.empty()) {
    throw DataError(fmt::format("There is no text in {} to train on by default: name some with --text.",
                                kDefaultDirectory));
  }
  return {files.begin(), files.end()};
}

Corpus load_corpus(const std::vector<fs::path>& paths, std::int64_t context) {
  Corpus corpus;
  corpus.context = context;
  std::set<fs::path> seen;
  for (const fs::path& path : paths) {
    std::error_code failure;
    const fs::path real = fs::canonical(path, failure);
    if (!failure && !seen.insert(real).second) continue;
    corpus.files.push_back(load_file(path, context));
    if (corpus.size() > kMaxBytes) {
      throw DataError(fmt::format("The text is too long: with {} it has more than {}.", path.string(),
                                  human_bytes(static_cast<double>(kMaxBytes))));
    }
  }
  return corpus;
}

}  // namespace mok::tool
