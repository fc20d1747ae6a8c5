// SPDX-License-Identifier: Apache-2.0
// The library on a problem of the float64 reference.
#pragma once

#include <mok/config.h>
#include <mok/tensor.h>

#include "mok/layer_setup.h"
#include "reference/moe_reference.h"

namespace mok::tool {

/// Whether the library has a backward for this device. On a GPU it has not, so far.
inline bool has_backward(const Device& device) { return device.type == DeviceType::cpu; }

/// One forward and, where the device has it, one backward over all ranks. Every output and gradient is NaN
/// beforehand, so that what the library leaves out shows; without a backward the gradients are empty.
/// \throws mok::Error
reference::Candidate run_layer(const reference::Problem& problem, const Config& config, bool staged,
                               const Device& device = {});

/// Bytes that run_layer and two evaluations of the reference take together, roughly, without the library's
/// own.
double check_bytes(const LayerSizes& shape);

}  // namespace mok::tool
