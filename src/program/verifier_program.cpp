// SPDX-License-Identifier: Apache-2.0
#include "program/verifier_program.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace mok::program::verifier {

using std::to_string;

void Report::add(Check check, std::string sentence) {
  if (++found_[static_cast<std::size_t>(check)] <= kMostPerCheck) problems_.push_back(std::move(sentence));
}

std::vector<std::string> Report::take() {
  static constexpr const char* kKinds[] = {"tables",   "order",          "bounds",   "deadlock",
                                           "counters", "happens-before", "coverage", "segments"};
  static_assert(std::size(kKinds) == static_cast<std::size_t>(Check::count));
  for (std::size_t c = 0; c < std::size(kKinds); ++c) {
    const std::int64_t more = found_[c] - kMostPerCheck;
    if (more > 0) problems_.push_back(to_string(more) + " more problems of the kind '" + kKinds[c] + "'.");
  }
  return std::move(problems_);
}

std::int64_t Program::rows_in_tile(std::int32_t rank, std::int64_t tile) const {
  const ScheduleTables& t = tables[rank];
  const std::int32_t expert = t.tile_expert[tile];
  return std::clamp<std::int64_t>(t.rows_per_expert[expert] - (tile - t.first_tile[expert]) * kRowTile, 0,
                                  kRowTile);
}

std::string describe(const Node& node) {
  const Task& task = node.task;
  std::string text =
      "rank " + to_string(node.rank) + "'s " + name(node.role) + " task " + to_string(node.index);
  if (task.op >= Op::count) return text;
  text += std::string(" (") + name(task.op);
  if (is_weight_grad(task.op)) {
    static constexpr const char* kMatrices[] = {"gate", "up", "down"};
    text += std::string(" ") + kMatrices[static_cast<int>(task.matrix)];
    if (task.op == Op::weight_grad) {
      text += " of expert " + to_string(task.expert) + ", macrobatch " + to_string(task.macrobatch);
    }
    text += ", rows " + to_string(task.out_row_begin) + " to " +
            to_string(task.out_row_begin + task.out_row_count - 1);
  } else {
    text += is_sum(task.op) ? " of group " : is_shared(task.op) ? " of token tile " : " of row tile ";
    text += to_string(task.row_tile);
  }
  return text + ", columns " + to_string(task.col_begin) + " to " +
         to_string(task.col_begin + task.col_count - 1) + ")";
}

std::string describe_counter(const Dims& dims, std::int64_t counter) {
  const CounterLayout layout = CounterLayout::make(dims);
  const Counter kind = layout.kind_of(counter);
  return std::string("counter ") + name(kind) + "[" + to_string(counter - layout.at(kind, 0)) + "] of rank " +
         to_string(dims.rank);
}

namespace {

/// Reads the tasks of one stretch.
void load_stretch(Program& program, const TaskSource& source, Report& report, std::int32_t rank, Role role,
                  const Stretch& stretch, std::int64_t first) {
  const std::int64_t count = TasksPerUnit::make(program.dims[rank]).in(stretch);
  for (std::int64_t i = 0; i < count; ++i) {
    Node node;
    node.phase = stretch.phase;
    node.index = first + i;
    node.rank = rank;
    node.role = role;
    node.task = source(rank, role, node.index);
    const std::string complaint = bounds_complaint(program, rank, role, node.task);
    if (complaint.empty()) {
      program.nodes.push_back(node);
    } else {
      report.add(Report::Check::bounds, describe(node) + " " + complaint + ".");
    }
  }
}

/// The stretches of a list must follow each other without gaps, and ascend: a worker that claims in list
/// order then never holds a task while one that stands before it in the total order is unclaimed.
void load_list(Program& program, const TaskSource& source, Report& report, std::int32_t rank, Role role) {
  const auto p = static_cast<int>(program.pass);
  const auto r = static_cast<int>(role);
  const ScheduleHeader& header = *program.tables[rank].header;
  const std::int32_t count = header.num_stretches[p][r];
  const std::string list = "rank " + to_string(rank) + "'s " + name(role) + " list";
  if (count < 0 || count > max_stretches(program.dims[rank].max_steps())) {
    report.add(Report::Check::order,
               list + " has " + to_string(count) + " stretches, more than its table holds.");
    return;
  }
  const TasksPerUnit tasks = TasksPerUnit::make(program.dims[rank]);
  std::int64_t next = 0;
  std::int64_t units[kNumOps] = {};
  std::int64_t phase = 0;
  for (std::int32_t s = 0; s < count; ++s) {
    const Stretch& stretch = program.tables[rank].stretches[p][r][s];
    const std::string where = list + ": stretch " + to_string(s);
    if (stretch.num_parts < 1 || stretch.num_parts > Stretch::kMaxParts) {
      report.add(Report::Check::order, where + " has " + to_string(stretch.num_parts) + " parts.");
      return;
    }
    for (int part = 0; part < stretch.num_parts; ++part) {
      if (stretch.parts[part].units > 0 && stretch.parts[part].op < Op::count) continue;
      report.add(Report::Check::order, where + " has an empty part.");
      return;
    }
    // Per op, because a layer of other widths makes other numbers of tasks of the same units.
    for (int op = 0; op < kNumOps; ++op) {
      if (stretch.units_before[op] == units[op]) continue;
      report.add(Report::Check::order, where + " begins at " + name(static_cast<Op>(op)) + " unit " +
                                           to_string(stretch.units_before[op]) + ", but " +
                                           to_string(units[op]) + " stand before it.");
    }
    if (stretch.phase < phase) {
      report.add(Report::Check::order, where + " has phase " + to_string(stretch.phase) +
                                           ", less than the stretch before it (" + to_string(phase) + ").");
    }
    phase = stretch.phase;
    load_stretch(program, source, report, rank, role, stretch, next);
    next += tasks.in(stretch);
    for (int part = 0; part < stretch.num_parts; ++part) {
      units[static_cast<int>(stretch.parts[part].op)] += stretch.parts[part].units;
    }
  }
  const std::int64_t all = num_tasks(program.dims[rank], program.tables[rank], program.pass, role);
  if (next != all) {
    report.add(Report::Check::order,
               list + " has " + to_string(all) + " tasks, but its stretches hold " + to_string(next) + ".");
  }
}

}  // namespace

void load_tasks(Program& program, const TaskSource& source, Report& report) {
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    for (const Role role : {Role::communication, Role::compute})
      load_list(program, source, report, rank, role);
  }
  std::sort(program.nodes.begin(), program.nodes.end(), [](const Node& a, const Node& b) {
    return std::tie(a.phase, a.role, a.rank, a.index) < std::tie(b.phase, b.role, b.rank, b.index);
  });
}

}  // namespace mok::program::verifier
