// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/tile_choice.h"

#include <algorithm>
#include <cmath>

#include "cuda/host/launch.h"
#include "cuda/pipeline/tiles.h"

namespace mok::cuda {

program::TileShape tile_shape(const program::Dims& /*dims*/) {
  program::TileShape tile;
  tile.gate_up_cols = kTileCols / 2;
  tile.down_cols = kTileCols;
  return tile;
}

int choose_comm_ctas(const program::Dims& dims, int ctas_per_rank) {
  // A row costs 6*H*I flops and 2*2*H bytes of dispatch: 8 of 132 SMs were best at I = 768 (docs/facts.md),
  // and the share falls with I.
  constexpr double kIntermediate = 768;
  constexpr double kShare = 8.0 / 132;
  const double share =
      kShare * kIntermediate / static_cast<double>(std::max<std::int64_t>(dims.intermediate, 64));
  const int ctas = static_cast<int>(std::lround(share * ctas_per_rank));
  return std::clamp(ctas, std::min(2, ctas_per_rank - 1), std::max(1, ctas_per_rank / 4));
}

}  // namespace mok::cuda
