// SPDX-License-Identifier: Apache-2.0
#include "reference/bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace mok::reference {
namespace {

double ratio(double distance, double norm) {
  if (distance == 0.0) return 0.0;
  return norm == 0.0 ? std::numeric_limits<double>::infinity() : distance / norm;
}

double allowed(double rounded_distance, double norm) {
  return rounded_distance > 0.0 ? kBoundFactor * rounded_distance : kExactSlack * norm;
}

bool same_nonfinite(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b;
}

// Sums of squares over a tensor, and the largest over a row.
struct Squares {
  void add_row(double row_sum, std::int64_t row) {
    total += row_sum;
    if (worst_row < 0 || row_sum > worst) {
      worst = row_sum;
      worst_row = row;
    }
  }
  double total = 0.0;
  double worst = 0.0;
  std::int64_t worst_row = -1;
};

template <class T>
Verdict compare_values(std::span<const double> exact, std::span<const double> rounded,
                       std::span<const T> candidate, std::int64_t rows, std::int64_t cols) {
  const std::size_t size = static_cast<std::size_t>(rows * cols);
  if (exact.size() != size || rounded.size() != size || candidate.size() != size) {
    throw std::invalid_argument("reference::compare: sizes " + std::to_string(exact.size()) + ", " +
                                std::to_string(rounded.size()) + ", " + std::to_string(candidate.size()) +
                                " do not match " + std::to_string(rows) + " x " + std::to_string(cols));
  }
  Verdict verdict;
  if (size == 0) return verdict;

  Squares norms, rounded_distances, distances;
  std::int64_t equal = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    double norm = 0.0, rounded_distance = 0.0, distance = 0.0;
    for (std::int64_t i = row * cols; i < (row + 1) * cols; ++i) {
      const std::size_t index = static_cast<std::size_t>(i);
      const double e = exact[index], r = rounded[index], c = static_cast<double>(candidate[index]);
      if (r == c || same_nonfinite(r, c)) ++equal;
      if (std::isfinite(e) && std::isfinite(r) && std::isfinite(c)) {
        norm += e * e;
        rounded_distance += (r - e) * (r - e);
        distance += (c - e) * (c - e);
      } else if (std::isfinite(r) || !same_nonfinite(r, c)) {
        if (verdict.nonfinite_mismatches++ == 0) verdict.first_nonfinite_mismatch = i;
      }
    }
    norms.add_row(norm, row);
    rounded_distances.add_row(rounded_distance, row);
    distances.add_row(distance, row);
  }

  verdict.equal_share = static_cast<double>(equal) / static_cast<double>(size);
  verdict.exact_norm = std::sqrt(norms.total);
  verdict.largest_row_norm = std::sqrt(norms.worst);
  verdict.norm_distance = std::sqrt(distances.total);
  verdict.norm_bound = allowed(std::sqrt(rounded_distances.total), verdict.exact_norm);
  verdict.worst_row_distance = std::sqrt(distances.worst);
  verdict.worst_row_bound = allowed(std::sqrt(rounded_distances.worst), verdict.largest_row_norm);
  verdict.worst_row = distances.worst_row;
  verdict.pass = verdict.nonfinite_mismatches == 0 && verdict.norm_distance <= verdict.norm_bound &&
                 verdict.worst_row_distance <= verdict.worst_row_bound;
  return verdict;
}

// A tensor that every rank has its own part of, as one tensor in rank order.
template <class T>
std::vector<T> over_ranks(const BasicResult<T>& result, std::vector<T> BasicRankResult<T>::*field) {
  std::vector<T> all;
  for (const BasicRankResult<T>& rank : result.ranks) {
    all.insert(all.end(), (rank.*field).begin(), (rank.*field).end());
  }
  return all;
}

class Comparison {
 public:
  Comparison(const Result& exact, const Result& rounded, const Candidate& candidate)
      : exact_(exact), rounded_(rounded), candidate_(candidate) {
    if (exact.ranks.size() != rounded.ranks.size() || exact.ranks.size() != candidate.ranks.size()) {
      throw std::invalid_argument("reference::compare_all: the numbers of ranks differ");
    }
  }

  void per_rank(const char* name, std::vector<double> BasicRankResult<double>::*field,
                std::vector<float> BasicRankResult<float>::*candidate_field, std::int64_t cols) {
    for (std::size_t rank = 0; rank < exact_.ranks.size(); ++rank) {
      require_same_size(name, (exact_.ranks[rank].*field).size(), (rounded_.ranks[rank].*field).size(),
                        (candidate_.ranks[rank].*candidate_field).size());
    }
    add(name, over_ranks(exact_, field), over_ranks(rounded_, field), over_ranks(candidate_, candidate_field),
        cols);
  }

  void global(const char* name, std::vector<double> Result::*field,
              std::vector<float> Candidate::*candidate_field, std::int64_t cols) {
    add(name, exact_.*field, rounded_.*field, candidate_.*candidate_field, cols);
  }

  std::vector<TensorReport> reports;

 private:
  static void require_same_size(const char* name, std::size_t exact, std::size_t rounded,
                                std::size_t candidate) {
    if (exact != rounded || exact != candidate) {
      throw std::invalid_argument(std::string("reference::compare_all: the shapes of ") + name + " differ");
    }
  }

  void add(const char* name, const std::vector<double>& exact, const std::vector<double>& rounded,
           const std::vector<float>& candidate, std::int64_t cols) {
    require_same_size(name, exact.size(), rounded.size(), candidate.size());
    const std::int64_t rows = cols == 0 ? 0 : static_cast<std::int64_t>(exact.size()) / cols;
    reports.push_back({name, compare(exact, rounded, candidate, rows, cols)});
  }

  const Result& exact_;
  const Result& rounded_;
  const Candidate& candidate_;
};

}  // namespace

double Verdict::relative_norm_distance() const { return ratio(norm_distance, exact_norm); }

double Verdict::relative_worst_row_distance() const { return ratio(worst_row_distance, largest_row_norm); }

Verdict compare(std::span<const double> exact, std::span<const double> rounded,
                std::span<const float> candidate, std::int64_t rows, std::int64_t cols) {
  return compare_values(exact, rounded, candidate, rows, cols);
}

Verdict compare(std::span<const double> exact, std::span<const double> rounded,
                std::span<const double> candidate, std::int64_t rows, std::int64_t cols) {
  return compare_values(exact, rounded, candidate, rows, cols);
}

std::vector<TensorReport> compare_all(const Problem& problem, const Result& exact, const Result& rounded,
                                      const Candidate& candidate) {
  using Exact = BasicRankResult<double>;
  using Tested = BasicRankResult<float>;
  const std::int64_t hidden = problem.hidden;
  const std::int64_t shared = problem.shared_intermediate;
  Comparison all(exact, rounded, candidate);
  all.per_rank("out", &Exact::out, &Tested::out, hidden);
  all.per_rank("d_x", &Exact::d_x, &Tested::d_x, hidden);
  all.per_rank("d_router_weights", &Exact::d_router_weights, &Tested::d_router_weights, problem.topk);
  all.global("d_gate", &Result::d_gate, &Candidate::d_gate, hidden);
  all.global("d_up", &Result::d_up, &Candidate::d_up, hidden);
  all.global("d_down", &Result::d_down, &Candidate::d_down, problem.intermediate);
  all.per_rank("d_shared_gate", &Exact::d_shared_gate, &Tested::d_shared_gate, hidden);
  all.per_rank("d_shared_up", &Exact::d_shared_up, &Tested::d_shared_up, hidden);
  all.per_rank("d_shared_down", &Exact::d_shared_down, &Tested::d_shared_down, shared);
  return std::move(all.reports);
}

bool all_pass(const std::vector<TensorReport>& reports) {
  return std::all_of(reports.begin(), reports.end(), [](const TensorReport& r) { return r.verdict.pass; });
}

std::string describe(const TensorReport& report) {
  const Verdict& v = report.verdict;
  std::ostringstream text;
  text.precision(3);
  text << report.name << (v.pass ? ": pass" : ": FAIL") << ", norm distance " << v.norm_distance << " (bound "
       << v.norm_bound << ", relative " << v.relative_norm_distance() << "), worst row " << v.worst_row
       << " distance " << v.worst_row_distance << " (bound " << v.worst_row_bound << ", relative "
       << v.relative_worst_row_distance() << "), equal " << v.equal_share;
  if (v.nonfinite_mismatches > 0) {
    text << ", NaN or infinity does not match in " << v.nonfinite_mismatches << " elements, first at "
         << v.first_nonfinite_mismatch;
  }
  return text.str();
}

std::string describe(const std::vector<TensorReport>& reports) {
  std::string text;
  for (const TensorReport& report : reports) text += describe(report) + "\n";
  return text;
}

}  // namespace mok::reference
