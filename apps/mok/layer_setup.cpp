// SPDX-License-Identifier: Apache-2.0
#include "mok/layer_setup.h"

#include <algorithm>

namespace mok::tool {

Config default_config(const LayerSizes& shape) {
  Config config;
  if (shape.macrobatch != 0) config.macrobatch_size = shape.macrobatch;
  config.minibatch_size =
      shape.minibatch != 0 ? shape.minibatch : std::min(config.minibatch_size, config.macrobatch_size);
  return config;
}

Config safe_config(const LayerSizes& shape, std::int64_t workers) {
  Config config = default_config(shape);
  config.schedule_capacity_multiplier = 1.0;
  config.cpu.num_compute_workers = static_cast<int>(workers);
  return config;
}

WorkspaceOptions workspace_options(const LayerSizes& shape, const Device& device) {
  return {.ranks = static_cast<int>(shape.ranks),
          .max_tokens = shape.tokens,
          .hidden_size = shape.hidden,
          .topk = static_cast<int>(shape.topk),
          .device = device};
}

MemoryReport memory_of(const LayerSizes& shape, const Config& config, const Device& device) {
  const LayerShape layer = {.num_experts = static_cast<int>(shape.experts),
                            .intermediate_size = shape.intermediate,
                            .shared_intermediate_size = shape.shared_intermediate};
  return nbytes_for(config, workspace_options(shape, device), layer);
}

double total_bytes(const MemoryReport& report, std::int64_t ranks) {
  const std::int64_t per_rank =
      report.symmetric_bytes + report.local_bytes + report.schedule_bytes + report.context_bytes;
  return static_cast<double>(per_rank) * static_cast<double>(ranks);
}

}  // namespace mok::tool
