// SPDX-License-Identifier: Apache-2.0
// Rounding a double to the formats a tensor is stored in.
//
// The reference rounds straight from double. Going through float first would round twice: a value just above
// a bf16 tie can become the tie in float and then fall to the even side.
#pragma once

#include <cstdint>

namespace mok::reference {

/// The bf16 number nearest to `value`, ties to even, as a double. Values beyond the largest bf16 by half a
/// unit or more become infinite, values below 2^-126 round to bf16's subnormals, NaN stays NaN, and the sign
/// of zero is kept.
double round_to_bfloat16(double value);

/// The IEEE binary32 number nearest to `value`, ties to even, as a double.
double round_to_float(double value);

/// The 16 bits of `round_to_bfloat16(value)`; a NaN gives a quiet NaN.
std::uint16_t bfloat16_bits(double value);

/// The value of a bf16 bit pattern.
double from_bfloat16_bits(std::uint16_t bits);

}  // namespace mok::reference
