// SPDX-License-Identifier: Apache-2.0
// Fills what a workspace keeps from pass to pass with NaN, so that reading something old shows.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include <mok/workspace.h>

#include "api/state.h"
#include "program/layout.h"

namespace mok::testing {

/// Fills every field of bf16 or f32 data of a layout; flags, counters and ids stay.
template <class Layout>
void poison_data(const Layout& layout, const program::Dims& dims, std::byte* base) {
  Layout::visit(layout, dims, [base](const char* /*name*/, const auto& field, std::int64_t /*count*/) {
    using Element = std::remove_cvref_t<decltype(*field.at(base))>;
    if constexpr (std::is_same_v<Element, bfloat16> || std::is_same_v<Element, float>) {
      std::memset(base + field.offset, 0xFF, static_cast<std::size_t>(field.bytes()));
    }
  });
}

/// Rows, slots, partials, carries of all ranks and all kinds of layer. Between passes only.
inline void poison_workspace(Workspace& workspace) {
  api::WorkspaceState& state = workspace.state();
  for (auto& [key, local] : state.locals) {
    const auto [experts, intermediate, shared_intermediate] = key;
    const program::Dims dims = state.dims({experts, intermediate, shared_intermediate}, 0);
    for (int rank = 0; rank < state.options.ranks; ++rank) {
      poison_data(local.layout, dims, local.ranks.of(rank));
      poison_data(state.symmetric_layout, dims, state.symmetric.peers()[rank]);
    }
  }
}

}  // namespace mok::testing
