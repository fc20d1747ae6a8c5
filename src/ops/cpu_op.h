// SPDX-License-Identifier: Apache-2.0
// What an op must give to run on the CPU. A new op fills these slots; the compiler says which is missing.
#pragma once

#include <concepts>

#include "ops/rank_view.h"
#include "program/task.h"

namespace mok::cpu {
struct TileBuffer;
}

namespace mok::ops {

/// A stateless type with the ops it serves and a body that computes one task of them.
template <class T>
concept CpuOp = requires(const RankView& view, const program::Task& task, cpu::TileBuffer& buffer) {
  { T::kOps[0] } -> std::convertible_to<program::Op>;
  { T::run_cpu(view, task, buffer) } -> std::same_as<void>;
};

}  // namespace mok::ops
