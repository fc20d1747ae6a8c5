// SPDX-License-Identifier: Apache-2.0
// Steps of a pass: in which order a rank's minibatches are processed.
//
// A minibatch is a run of row tiles; minibatches are numbered along the rows. A step is a place in the order
// of processing. Backward goes along the rows, so that sums over an expert's rows run in row order. Forward
// takes the macrobatches from last to first, so that the ring holds the first one at the end: that is the
// context.
#pragma once

#include <cstdint>

#include "program/dims.h"
#include "program/op.h"

namespace mok::program {

struct Steps {
  std::int64_t tiles = 0;
  std::int64_t minibatch_tiles = 1;
  std::int64_t per_macrobatch = 1;  ///< minibatches in a full macrobatch
  Pass pass = Pass::forward;

  MOK_HOST_DEVICE static constexpr Steps make(const Dims& dims, std::int64_t tiles, Pass pass) {
    const std::int64_t used = pass == Pass::recompute ? min(tiles, dims.macrobatch_tiles) : tiles;
    return {used, dims.minibatch_tiles, dims.macrobatch_tiles / dims.minibatch_tiles, pass};
  }

  MOK_HOST_DEVICE constexpr std::int64_t count() const {
    return quotient(tiles + minibatch_tiles - 1, minibatch_tiles);
  }

  MOK_HOST_DEVICE constexpr std::int64_t minibatch_of_step(std::int64_t step) const {
    if (pass != Pass::forward) return step;
    const std::int64_t last = last_macrobatch();
    const std::int64_t in_last = count() - last * per_macrobatch;
    if (step < in_last) return last * per_macrobatch + step;
    const std::int64_t behind = step - in_last;
    return (last - 1 - quotient(behind, per_macrobatch)) * per_macrobatch + remainder(behind, per_macrobatch);
  }

  MOK_HOST_DEVICE constexpr std::int64_t step_of_minibatch(std::int64_t minibatch) const {
    if (pass != Pass::forward) return minibatch;
    const std::int64_t last = last_macrobatch();
    const std::int64_t macrobatch = quotient(minibatch, per_macrobatch);
    const std::int64_t in_macrobatch = remainder(minibatch, per_macrobatch);
    if (macrobatch == last) return in_macrobatch;
    return count() - last * per_macrobatch + (last - 1 - macrobatch) * per_macrobatch + in_macrobatch;
  }

  MOK_HOST_DEVICE constexpr std::int64_t step_of_tile(std::int64_t tile) const {
    return step_of_minibatch(quotient(tile, minibatch_tiles));
  }

  MOK_HOST_DEVICE constexpr std::int64_t first_tile(std::int64_t minibatch) const {
    return minibatch * minibatch_tiles;
  }
  MOK_HOST_DEVICE constexpr std::int64_t end_tile(std::int64_t minibatch) const {
    return min(tiles, (minibatch + 1) * minibatch_tiles);
  }
  MOK_HOST_DEVICE constexpr std::int64_t macrobatch_of_minibatch(std::int64_t minibatch) const {
    return quotient(minibatch, per_macrobatch);
  }
  /// The first step of a macrobatch reuses ring slots of the one before it: look-ahead stops there.
  MOK_HOST_DEVICE constexpr bool opens_macrobatch(std::int64_t step) const {
    return remainder(minibatch_of_step(step), per_macrobatch) == 0;
  }

 private:
  MOK_HOST_DEVICE constexpr std::int64_t last_macrobatch() const {
    return quotient(max(count(), std::int64_t{1}) - 1, per_macrobatch);
  }
};

}  // namespace mok::program
