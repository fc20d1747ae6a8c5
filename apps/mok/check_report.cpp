// SPDX-License-Identifier: Apache-2.0
#include "mok/check_report.h"

#include <fmt/format.h>

#include "mok/tool_error.h"

namespace mok::tool {

namespace {
/// `distance` as part of `norm`; where the norm is zero, the distance itself.
double relative(double distance, double norm) { return norm > 0 ? distance / norm : distance; }
}  // namespace

std::string check_table(const std::vector<reference::TensorReport>& reports, bool has_shared) {
  std::string table =
      fmt::format("  {:<17}  {:^23}  {:^23}\n", "", "distance / norm", "worst row / largest row");
  table += fmt::format("  {:<17}  {:>10}   {:>10}  {:>10}   {:>10}\n", "", "is", "may be", "is", "may be");
  for (const reference::TensorReport& report : reports) {
    const reference::Verdict& verdict = report.verdict;
    if (!has_shared && report.name.starts_with("d_shared")) continue;
    std::string note = verdict.pass ? "pass" : "FAIL";
    if (verdict.nonfinite_mismatches > 0) {
      note += fmt::format(", {} elements are not finite or should not be", verdict.nonfinite_mismatches);
    }
    table += fmt::format("  {:<17}  {:>10.3e}   {:>10.3e}  {:>10.3e}   {:>10.3e}  {}\n", report.name,
                         relative(verdict.norm_distance, verdict.exact_norm),
                         relative(verdict.norm_bound, verdict.exact_norm),
                         relative(verdict.worst_row_distance, verdict.largest_row_norm),
                         relative(verdict.worst_row_bound, verdict.largest_row_norm), note);
  }
  return table;
}

void require_all_pass(const std::vector<reference::TensorReport>& reports) {
  std::vector<std::string> failed;
  for (const reference::TensorReport& report : reports) {
    if (!report.verdict.pass) failed.push_back(report.name);
  }
  if (failed.empty()) return;
  throw DataError(
      fmt::format("The library is farther from the float64 reference than its bounds allow in {}.",
                  fmt::join(failed, ", ")));
}

}  // namespace mok::tool
