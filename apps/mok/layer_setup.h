// SPDX-License-Identifier: Apache-2.0
// The library's settings and memory for a shape.
#pragma once

#include <cstdint>

#include <mok/config.h>
#include <mok/memory.h>

namespace mok::tool {

/// The sizes of a layer over all ranks.
struct LayerSizes {
  std::int64_t tokens = 128;             ///< T, per rank
  std::int64_t hidden = 256;             ///< H
  std::int64_t intermediate = 128;       ///< I
  std::int64_t shared_intermediate = 0;  ///< Is
  std::int64_t experts = 8;              ///< E
  std::int64_t topk = 2;                 ///< K
  std::int64_t ranks = 2;                ///< R
  std::int64_t minibatch = 0;            ///< 0 = the library's default
  std::int64_t macrobatch = 0;           ///< likewise
};

/// The library's defaults, but for what the shape names. A macrobatch below the default minibatch brings its
/// own.
Config default_config(const LayerSizes& shape);

/// The same with tables that no routing can overflow: the tool's runs are to finish whatever the router does,
/// and 12 bytes a row are nothing at their sizes.
Config safe_config(const LayerSizes& shape, std::int64_t workers);

WorkspaceOptions workspace_options(const LayerSizes& shape, const Device& device);

/// \throws mok::InvalidArgument
MemoryReport memory_of(const LayerSizes& shape, const Config& config, const Device& device = {});
/// Bytes over all ranks, with one schedule and one context alive.
double total_bytes(const MemoryReport& report, std::int64_t ranks);

}  // namespace mok::tool
