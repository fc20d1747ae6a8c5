// SPDX-License-Identifier: Apache-2.0
#include "reference/matrix.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>

namespace mok::reference {
namespace {

// Rows of b that one sweep over c uses: 64 rows of 1024 doubles stay in a second-level cache.
constexpr std::int64_t kPanel = 64;
// Products below this many multiply-adds take less time than starting a thread.
constexpr std::int64_t kSerialWork = 1 << 18;

// Four rows of b at a time: c is loaded and stored once per four products, and the inner loop, which runs
// along contiguous rows and carries nothing from one column to the next, can be vectorised.
void add_product_rows(const Matrix& a, const Matrix& b, Matrix& c, std::int64_t first, std::int64_t last) {
  const std::int64_t inner = a.cols;
  const std::int64_t cols = b.cols;
  for (std::int64_t begin = 0; begin < inner; begin += kPanel) {
    const std::int64_t end = std::min(begin + kPanel, inner);
    for (std::int64_t r = first; r < last; ++r) {
      const double* a_row = a.row(r);
      double* c_row = c.row(r);
      std::int64_t k = begin;
      for (; k + 4 <= end; k += 4) {
        const double a0 = a_row[k], a1 = a_row[k + 1], a2 = a_row[k + 2], a3 = a_row[k + 3];
        const double *b0 = b.row(k), *b1 = b.row(k + 1), *b2 = b.row(k + 2), *b3 = b.row(k + 3);
        for (std::int64_t j = 0; j < cols; ++j) {
          c_row[j] = (((c_row[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
        }
      }
      for (; k < end; ++k) {
        const double a0 = a_row[k];
        const double* b0 = b.row(k);
        for (std::int64_t j = 0; j < cols; ++j) c_row[j] = c_row[j] + a0 * b0[j];
      }
    }
  }
}

}  // namespace

Matrix transposed(const Matrix& m) {
  // In square blocks, so that both sides are walked a cache line at a time.
  constexpr std::int64_t kBlock = 16;
  Matrix t(m.cols, m.rows);
  for (std::int64_t r0 = 0; r0 < m.rows; r0 += kBlock) {
    const std::int64_t r1 = std::min(r0 + kBlock, m.rows);
    for (std::int64_t c0 = 0; c0 < m.cols; c0 += kBlock) {
      const std::int64_t c1 = std::min(c0 + kBlock, m.cols);
      for (std::int64_t c = c0; c < c1; ++c) {
        for (std::int64_t r = r0; r < r1; ++r) t.row(c)[r] = m.row(r)[c];
      }
    }
  }
  return t;
}

void add_product(const Matrix& a, const Matrix& b, Matrix& c, int threads) {
  if (a.cols != b.rows || c.rows != a.rows || c.cols != b.cols) {
    throw std::invalid_argument("reference::add_product: the shapes do not fit");
  }
  std::int64_t workers =
      threads > 0 ? threads : std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  workers = std::clamp<std::int64_t>(workers, 1, std::max<std::int64_t>(1, a.rows));
  if (a.rows * a.cols * b.cols < kSerialWork) workers = 1;

  std::vector<std::jthread> pool;
  for (std::int64_t w = 1; w < workers; ++w) {
    pool.emplace_back(add_product_rows, std::cref(a), std::cref(b), std::ref(c), a.rows * w / workers,
                      a.rows * (w + 1) / workers);
  }
  add_product_rows(a, b, c, 0, a.rows / workers);
}

Matrix product(const Matrix& a, const Matrix& b, int threads) {
  Matrix c(a.rows, b.cols);
  add_product(a, b, c, threads);
  return c;
}

}  // namespace mok::reference
