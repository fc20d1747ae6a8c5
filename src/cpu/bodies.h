// SPDX-License-Identifier: Apache-2.0
// From an op to its CPU body.
#pragma once

#include "cpu/tile_buffer.h"
#include "ops/rank_view.h"
#include "program/task.h"

namespace mok::cpu {

/// Computes one task of any op.
void run_body(const ops::RankView& view, const program::Task& task, TileBuffer& buffer);

}  // namespace mok::cpu
