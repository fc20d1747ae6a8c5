// SPDX-License-Identifier: Apache-2.0
#include "group/host_buffer.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <mok/error.h>

#include "program/layout.h"

namespace mok::group {

HostBuffer::HostBuffer(std::int64_t bytes, const char* what) : size_(bytes) {
  constexpr std::int64_t kAlignment = program::kFieldAlignment;
  // aligned_alloc wants a multiple of the alignment.
  const std::int64_t rounded = program::ceil_div(std::max<std::int64_t>(bytes, 1), kAlignment) * kAlignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded))));
  if (data_ == nullptr) {
    throw Error(fmt::format(
        "cannot allocate {} bytes for {}: this machine has not that much memory; lower max_tokens, "
        "or, for local memory and contexts, macrobatch_size",
        bytes, what));
  }
}

void HostBuffer::Free::operator()(std::byte* data) const { std::free(data); }

}  // namespace mok::group
