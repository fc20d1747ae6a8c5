// SPDX-License-Identifier: Apache-2.0
// The names of the program: passes, roles, ops, matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mok/host_device.h>

namespace mok::program {

/// A launch. `recompute` refills a context: gate_up of the first macrobatch and of the shared expert.
enum class Pass : std::uint8_t { forward, backward, recompute };
inline constexpr int kNumPasses = 3;

/// Who claims a task: the two kinds have a ticket counter and an order each.
enum class Role : std::uint8_t { communication, compute };
inline constexpr int kNumRoles = 2;

/// An arrow of the data flow.
enum class Op : std::uint8_t {
  dispatch_x,     ///< pull a row tile of x from the source ranks
  dispatch_grad,  ///< pull a row tile of grad_output and its router weights
  gate_up,        ///< G, U (and Hd in forward)
  down,           ///< y, pushed to its slots
  dhidden,        ///< dHraw and through SwiGLU: dG, dU, Hw, partials of d_router_weights
  dx,             ///< gradient of x per route, pushed to its slots; d_router_weights with it
  weight_grad,    ///< a tile of dWg, dWu or dWd over an expert's rows of a macrobatch
  weighted_sum,   ///< out from the slots
  grad_sum,       ///< d_x and d_router_weights from the slots
  shared_gate_up,
  shared_down,
  shared_dhidden,
  shared_dx,
  shared_weight_grad,
  count
};

inline constexpr int kNumOps = static_cast<int>(Op::count);

/// Which weight a weight_grad task belongs to.
enum class Matrix : std::uint8_t { gate, up, down };
inline constexpr int kNumMatrices = 3;

constexpr const char* name(Pass pass) {
  constexpr const char* kNames[] = {"forward", "backward", "recompute"};
  return kNames[static_cast<int>(pass)];
}

constexpr const char* name(Role role) {
  constexpr const char* kNames[] = {"communication", "compute"};
  return kNames[static_cast<int>(role)];
}

constexpr const char* name(Op op) {
  constexpr const char* kNames[] = {
      "dispatch_x",  "dispatch_grad",     "gate_up",  "down",           "dhidden",     "dx",
      "weight_grad", "weighted_sum",      "grad_sum", "shared_gate_up", "shared_down", "shared_dhidden",
      "shared_dx",   "shared_weight_grad"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<std::size_t>(Op::count));
  return kNames[static_cast<int>(op)];
}

MOK_HOST_DEVICE constexpr bool is_shared(Op op) {
  return op == Op::shared_gate_up || op == Op::shared_down || op == Op::shared_dhidden ||
         op == Op::shared_dx || op == Op::shared_weight_grad;
}

}  // namespace mok::program
