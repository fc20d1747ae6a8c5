// SPDX-License-Identifier: Apache-2.0
// Dense row-major matrices of doubles with the two operations that the reference needs: transpose, and
// multiply-add.
#pragma once

#include <cstdint>
#include <vector>

namespace mok::reference {

/// A rows x cols matrix, row-major, zero when made.
struct Matrix {
  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t col_count)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(row_count * col_count)) {}
  /// A copy of the rows x cols numbers at `source`.
  Matrix(std::int64_t row_count, std::int64_t col_count, const double* source)
      : rows(row_count), cols(col_count), values(source, source + row_count * col_count) {}

  double* row(std::int64_t r) { return values.data() + r * cols; }
  const double* row(std::int64_t r) const { return values.data() + r * cols; }

  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;
};

Matrix transposed(const Matrix& m);

/// c += a b, for a [M,K], b [K,N], c [M,N]. Every element of c adds its K products one after the other in
/// ascending order, so its value does not depend on `threads` (0 = as many as the machine has).
void add_product(const Matrix& a, const Matrix& b, Matrix& c, int threads);

/// a b, as `add_product` on zeros.
Matrix product(const Matrix& a, const Matrix& b, int threads);

}  // namespace mok::reference
