// SPDX-License-Identifier: Apache-2.0
// What the layer allocates, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mok/config.h>

namespace mok {

/// One buffer of one rank.
struct BufferBytes {
  std::string name;
  std::int64_t bytes = 0;
};

/// Bytes per rank. `symmetric` and `local` belong to the workspace; each schedule and each forward context
/// that is alive adds its own.
struct MemoryReport {
  std::vector<BufferBytes> symmetric;
  std::vector<BufferBytes> local;
  std::vector<BufferBytes> schedule;
  std::vector<BufferBytes> context;
  std::int64_t symmetric_bytes = 0;
  std::int64_t local_bytes = 0;
  std::int64_t schedule_bytes = 0;
  std::int64_t context_bytes = 0;
};

/// The bytes that a workspace, a schedule and a context will take, before anything is allocated.
/// \throws InvalidArgument as Workspace does.
[[nodiscard]] MemoryReport nbytes_for(const Config& config, const WorkspaceOptions& options,
                                      const LayerShape& layer);

}  // namespace mok
