// SPDX-License-Identifier: Apache-2.0
// The derived bound: how far from the exact result an implementation may be.
//
// No tolerance is picked by hand. The reference is evaluated twice, exactly and with the layer's roundings,
// and an implementation may be at most twice as far from the exact result as the rounded evaluation is: for
// every output and gradient, in Frobenius norm and for the worst row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/moe_reference.h"

namespace mok::reference {

/// How far the candidate may be from the exact result, in units of the rounded result's distance.
inline constexpr double kBoundFactor = 2.0;
/// The part of the norm that is allowed where the rounded result is exact.
inline constexpr double kExactSlack = 1e-3;

/// The comparison of one tensor, seen as rows x cols.
///
/// A row's distance is the norm of candidate minus exact over that row. The worst row of the candidate is
/// held against the worst row of the rounded result, not against the same row: where one row's roundings
/// happen to cancel, nothing follows for the candidate. If the rounded result's distance is zero, the bound
/// is kExactSlack times the tensor's norm, for rows kExactSlack times the largest row norm.
///
/// NaN and infinities are not distances. Where the rounded result or the candidate is not finite, both must
/// be, and alike: NaN with NaN, infinity with infinity of the same sign. (A sum that meets infinities of both
/// signs, or a NaN, is NaN in any order of summation, so an implementation has no freedom there.) Such
/// elements are left out of the distances; a mismatch fails. So does an element whose exact value alone is
/// not finite.
struct Verdict {
  double norm_distance = 0.0;       ///< Frobenius norm of candidate - exact
  double norm_bound = 0.0;          ///< what it may be
  double worst_row_distance = 0.0;  ///< the largest row distance of the candidate
  double worst_row_bound = 0.0;     ///< what it may be
  std::int64_t worst_row = -1;      ///< the row of worst_row_distance, -1 without rows

  double exact_norm = 0.0;        ///< Frobenius norm of the exact tensor
  double largest_row_norm = 0.0;  ///< the largest norm of a row of the exact tensor

  std::int64_t nonfinite_mismatches = 0;  ///< elements where NaN or infinity stands against something else
  std::int64_t first_nonfinite_mismatch = -1;  ///< index of the first of them, -1 = none

  /// The share of elements that equal the rounded result exactly. Not part of the verdict: a sound
  /// implementation comes close to 1 in bf16 tensors, as float sums seldom end on the other side of a
  /// rounding boundary, while a rounding point too many or too few, which a factor of two can hide, costs
  /// about a third of the elements or more.
  double equal_share = 1.0;

  bool pass = true;

  /// norm_distance / exact_norm; 0 where nothing differs, infinite where the exact tensor is zero and
  /// something does.
  double relative_norm_distance() const;
  /// worst_row_distance / largest_row_norm, likewise.
  double relative_worst_row_distance() const;
};

/// Holds a candidate [rows, cols] against the bound that `exact` and `rounded` of the same shape derive. A
/// tensor without elements passes. Throws std::invalid_argument when a size is not rows * cols.
Verdict compare(std::span<const double> exact, std::span<const double> rounded,
                std::span<const float> candidate, std::int64_t rows, std::int64_t cols);
Verdict compare(std::span<const double> exact, std::span<const double> rounded,
                std::span<const double> candidate, std::int64_t rows, std::int64_t cols);

/// The verdict on one output or gradient of the layer.
struct TensorReport {
  std::string name;
  Verdict verdict;
};

/// Compares every output and gradient, over all ranks together: out, d_x, d_router_weights (rows are tokens),
/// d_gate, d_up, d_down, d_shared_gate, d_shared_up, d_shared_down (rows are those of the weight). Tensors
/// that are empty in all three (no shared expert, or a forward-only evaluation) pass; throws
/// std::invalid_argument when shapes differ.
std::vector<TensorReport> compare_all(const Problem& problem, const Result& exact, const Result& rounded,
                                      const Candidate& candidate);

/// Whether every tensor passes.
bool all_pass(const std::vector<TensorReport>& reports);

/// One line for a person: distances, bounds and relative figures.
std::string describe(const TensorReport& report);
/// One line per tensor.
std::string describe(const std::vector<TensorReport>& reports);

}  // namespace mok::reference
