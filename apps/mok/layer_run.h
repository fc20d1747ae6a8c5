// SPDX-License-Identifier: Apache-2.0
// The library on a problem of the float64 reference.
#pragma once

#include <mok/config.h>

#include "mok/layer_setup.h"
#include "reference/moe_reference.h"

namespace mok::tool {

/// One forward and one backward over all ranks. Every output and gradient is NaN beforehand, so that what the
/// library leaves out shows.
/// \throws mok::Error
reference::Candidate run_layer(const reference::Problem& problem, const Config& config, bool staged);

/// Bytes that run_layer and two evaluations of the reference take together, roughly, without the library's
/// own.
double check_bytes(const LayerSizes& shape);

}  // namespace mok::tool
