// SPDX-License-Identifier: Apache-2.0
// What an op body sees of one rank in one pass: sizes, tables, and where every tensor lies. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mok/bfloat16.h>

#include "ops/swiglu/swiglu.h"
#include "program/layout.h"
#include "program/op.h"
#include "program/tables.h"

namespace mok::ops {

/// A weight, [experts, rows, cols] with any distance between experts.
struct WeightView {
  const bfloat16* data = nullptr;
  std::int64_t expert_stride = 0;
  [[nodiscard]] MOK_HOST_DEVICE const bfloat16* of(std::int32_t expert) const {
    return data + expert * expert_stride;
  }
};

struct Weights {
  WeightView gate, up, down;
};

/// Where a weight gradient goes: bf16 to be overwritten, or an f32 main_grad to be added to.
struct GradientView {
  void* data = nullptr;
  std::int64_t expert_stride = 0;
  bool is_main_grad = false;
};

struct Gradients {
  GradientView gate, up, down;
  [[nodiscard]] MOK_HOST_DEVICE const GradientView& of(program::Matrix matrix) const {
    return matrix == program::Matrix::gate ? gate : matrix == program::Matrix::up ? up : down;
  }
};

/// Rows of x, G and U in expert-sorted order, addressed by ring row.
struct RowStore {
  bfloat16* x = nullptr;     ///< [ring,H]
  bfloat16* gate = nullptr;  ///< [ring,I]
  bfloat16* up = nullptr;    ///< [ring,I]
};

/// One rank in one pass.
struct RankView {
  program::Dims dims;
  program::Pass pass = program::Pass::forward;
  program::ScheduleTables tables;
  SwigluLimit limit;

  program::SymmetricLayout symmetric;
  std::byte* const* peers = nullptr;  ///< [R] symmetric memory of every rank

  const bfloat16* x = nullptr;            ///< [T,H] the caller's
  const float* router_weights = nullptr;  ///< [T,K]
  const bfloat16* grad_output = nullptr;  ///< [T,H]
  Weights routed;
  Weights shared;

  RowStore saved;                   ///< the context's; in forward also the ring of the other macrobatches
  RowStore replay;                  ///< the workspace's, for what the context does not hold
  bfloat16* shared_gate = nullptr;  ///< [T,Is] the context's
  bfloat16* shared_up = nullptr;

  bfloat16* hidden = nullptr;        ///< [ring,I] Hd, in backward Hw
  bfloat16* grad_rows = nullptr;     ///< [ring,H]
  float* row_weights = nullptr;      ///< [ring]
  bfloat16* d_gate = nullptr;        ///< [ring,I]
  bfloat16* d_up = nullptr;          ///< [ring,I]
  float* weight_partials = nullptr;  ///< [ring,I/64]
  float* carry = nullptr;            ///< [2,3,I*H]
  bfloat16* shared_hidden = nullptr;
  bfloat16* shared_d_gate = nullptr;
  bfloat16* shared_d_up = nullptr;
  bfloat16* shared_out = nullptr;  ///< [T,H]

  bfloat16* out = nullptr;            ///< [T,H] output, in backward d_x
  float* d_router_weights = nullptr;  ///< [T,K]
  Gradients d_routed;
  Gradients d_shared;

  /// Holder of x, G and U of a macrobatch.
  [[nodiscard]] MOK_HOST_DEVICE const RowStore& rows(std::int64_t macrobatch) const {
    return pass == program::Pass::backward && macrobatch > 0 ? replay : saved;
  }
};

/// Operand and result rows of a task: the expert's rows in the ring, or the shared expert's, which are the
/// tokens.
struct Activations {
  std::int64_t intermediate = 0;
  const bfloat16* x = nullptr;
  const bfloat16* grad = nullptr;
  bfloat16* gate = nullptr;
  bfloat16* up = nullptr;
  bfloat16* hidden = nullptr;
  bfloat16* d_gate = nullptr;
  bfloat16* d_up = nullptr;
  const Weights* weights = nullptr;
  std::int32_t expert = 0;
};

/// Pointers to the first row of a task's tile.
MOK_HOST_DEVICE inline Activations activations(const RankView& view, bool shared, std::int32_t expert,
                                               std::int64_t macrobatch, std::int64_t row) {
  const std::int64_t hidden = view.dims.hidden;
  if (shared) {
    const std::int64_t at = row * view.dims.shared_intermediate;
    return {view.dims.shared_intermediate,
            view.x + row * hidden,
            view.grad_output == nullptr ? nullptr : view.grad_output + row * hidden,
            view.shared_gate + at,
            view.shared_up + at,
            view.shared_hidden + at,
            view.shared_d_gate + at,
            view.shared_d_up + at,
            &view.shared,
            0};
  }
  const RowStore& rows = view.rows(macrobatch);
  const std::int64_t at = row * view.dims.intermediate;
  return {view.dims.intermediate,
          rows.x + row * hidden,
          view.grad_rows + row * hidden,
          rows.gate + at,
          rows.up + at,
          view.hidden + at,
          view.d_gate + at,
          view.d_up + at,
          &view.routed,
          expert};
}

}  // namespace mok::ops
