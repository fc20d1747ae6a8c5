// SPDX-License-Identifier: Apache-2.0
#include "program/verifier.h"

#include <string>
#include <vector>

#include "program/verifier_program.h"
#include "program/verifier_rows.h"
#include "program/verifier_waits.h"
#include "program/verifier_weights.h"

namespace mok::program {

using std::to_string;

namespace verifier {
namespace {

/// Every token is summed once: the sums write whole rows of the results.
void check_sums(const Program& program, Report& report) {
  if (program.pass == Pass::recompute) return;
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    std::vector<int> sums(ceil_div(program.tokens(rank), kSumTokens), 0);
    for (const Node& node : program.nodes) {
      if (node.rank == rank && is_sum(node.task.op)) ++sums[node.task.row_tile];
    }
    for (std::size_t group = 0; group < sums.size(); ++group) {
      if (sums[group] == 1) continue;
      report.add(Report::Check::coverage, "Group " + to_string(group) + " of rank " + to_string(rank) +
                                              "'s tokens is summed " + to_string(sums[group]) + " times.");
    }
  }
}

std::string sentence(const Program& program, std::int32_t position, const Requirement& requirement) {
  const std::string task = describe(program.nodes[position]);
  const std::string earlier = describe(program.nodes[requirement.earlier]);
  const std::string what = std::string(requirement.buffer) + " (tile " + to_string(requirement.tile) + ")";
  switch (requirement.kind) {
    case Requirement::Kind::read_after_write:
      return task + " reads " + what + ", but nothing orders it behind " + earlier + ", which writes that.";
    case Requirement::Kind::write_after_read:
      return task + " reuses " + what + ", but nothing orders it behind " + earlier + ", which reads that.";
    default:
      return task + " overwrites " + what + ", but nothing orders it behind " + earlier +
             ", which writes that.";
  }
}

/// Every read has its write, and every reuse of a place all earlier use, among what happens before it.
void check_happens_before(const Program& program, WaitGraph& graph, RowAccesses& rows,
                          const WeightGradients& weights, Report& report) {
  std::vector<Requirement> required;
  std::vector<std::int32_t> targets;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto position = static_cast<std::int32_t>(n);
    required.clear();
    rows.require(position, required);
    weights.require(position, required);
    if (required.empty()) continue;
    targets.clear();
    for (const Requirement& requirement : required) targets.push_back(requirement.earlier);
    graph.search(position, targets);
    for (const Requirement& requirement : required) {
      if (graph.reached(requirement.earlier)) continue;
      report.add(Report::Check::happens_before, sentence(program, position, requirement));
      break;  // one task's other problems mostly have the same cause
    }
  }
}

}  // namespace
}  // namespace verifier

std::vector<std::string> verify(const std::vector<Dims>& dims, const std::vector<ScheduleTables>& tables,
                                Pass pass, const TaskSource& source) {
  using namespace verifier;
  Report report;
  Program program{dims, tables, pass};
  check_tables(program, report);
  if (!report.empty() || tables[0].header->refusal != Refusal::none) return report.take();

  const TaskSource decode = [&](std::int32_t rank, Role role, std::int64_t index) {
    return decode_task(dims[rank], tables[rank], pass, role, index);
  };
  load_tasks(program, source ? source : decode, report);
  WaitGraph graph(program);
  graph.check_counters(report);
  graph.check_deadlock(report);
  RowAccesses rows(program);
  rows.check_coverage(report);
  check_sums(program, report);
  WeightGradients weights(program);
  weights.check(report);
  check_happens_before(program, graph, rows, weights, report);
  return report.take();
}

}  // namespace mok::program
