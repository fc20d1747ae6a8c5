// SPDX-License-Identifier: Apache-2.0
// A second, independent implementation of the layer in float32, with mistakes to order.
//
// It stands in for a backend, to test the bound: without a fault it must pass, with any fault it must fail.
// It walks the routes one by one and shares no code with the float64 reference.
#pragma once

#include <string_view>

#include "reference/moe_reference.h"

namespace mok::reference {

/// Faults of one route or row concern the middle one; those of a tile concern the first 128 rows of its
/// expert.
enum class Fault {
  none,
  // Forward.
  tanh_for_sigmoid,          ///< SiLU computed as g tanh(g)
  approximate_sigmoid,       ///< sigmoid from a tanh that is good to 11 bits: no correct digit in the tail
  route_left_out,            ///< one route is missing from the weighted sum
  weight_applied_twice,      ///< w w y
  gate_and_up_swapped,       ///< silu(U) G
  row_shifted,               ///< a row's y lands in the slot of its neighbour, and the neighbour's in its own
  k_step_missing,            ///< G of one tile lacks the last 64 of the contraction over H
  dropped_route_times_zero,  ///< a dropped route is multiplied by zero; its slot holds NaN
  one_sided_up_limit,        ///< U is limited from above only
  // Backward.
  d_w_from_weighted_d_hidden,   ///< d_w sums w dHraw Hd
  d_w_from_rounded_d_hidden,    ///< d_w sums bf16(dHraw) Hd
  d_hidden_k_step_missing,      ///< dHraw of one tile lacks the last 64 of the contraction over H
  mask_multiplied,              ///< dG is multiplied by a mask of 0 and 1
  short_silu_derivative,        ///< sigmoid(G) alone, without G s (1 - s)
  unweighted_d_up,              ///< dU from dHraw
  d_x_without_up,               ///< dx_route = dG Wg
  unweighted_down_gradient,     ///< dWd from Hd instead of Hw
  gradient_row_missing,         ///< one row is missing from dWg, dWu and dWd
  shared_gradient_row_missing,  ///< one token is missing from the shared expert's weight gradients
};

std::string_view fault_name(Fault fault);

/// Forward and backward of all ranks with the given fault.
Candidate run_faulty_layer(const Problem& problem, Fault fault, WeightGradients weight_gradients);

}  // namespace mok::reference
