// SPDX-License-Identifier: Apache-2.0
// The one table of what the kernels are tuned by: tiles and CTAs that dispatch.
#pragma once

#include "program/dims.h"

namespace mok::cuda {

/// CTAs of a rank that dispatch before they compute. More hide dispatch sooner and take SMs from the products
/// until they are through: what a layer needs depends on its products per dispatched byte, which is what the
/// intermediate size tells.
/// \param ctas_per_rank at least 2
int choose_comm_ctas(const program::Dims& dims, int ctas_per_rank);

}  // namespace mok::cuda
