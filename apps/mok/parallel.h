// SPDX-License-Identifier: Apache-2.0
// A parallel loop over blocks.
#pragma once

#include <cstdint>
#include <functional>

namespace mok::tool {

/// Calls body(block) once for each block in [0, blocks), on up to `threads` threads, in no particular order.
/// Results do not depend on `threads` as long as the blocks follow from the problem alone and write to places
/// of their own. Rethrows the first exception of a body.
void parallel_blocks(int threads, std::int64_t blocks, const std::function<void(std::int64_t)>& body);

/// Cuts [0, size) into blocks of `block` and calls body(begin, count) for each, likewise.
template <class Body>
void parallel_ranges(int threads, std::int64_t size, std::int64_t block, const Body& body) {
  parallel_blocks(threads, (size + block - 1) / block, [&](std::int64_t i) {
    const std::int64_t begin = i * block;
    body(begin, size - begin < block ? size - begin : block);
  });
}

}  // namespace mok::tool
