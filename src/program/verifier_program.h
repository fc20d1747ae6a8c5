// SPDX-License-Identifier: Apache-2.0
// What the parts of the verifier share: the tasks of all ranks in their total order, and the list of
// problems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/counters.h"
#include "program/dims.h"
#include "program/op.h"
#include "program/tables.h"
#include "program/task.h"
#include "program/verifier.h"

namespace mok::program::verifier {

/// Collects problems, and cuts each kind off when a fault repeats itself.
class Report {
 public:
  enum class Check { tables, order, bounds, deadlock, counters, happens_before, coverage, segments, count };

  void add(Check check, std::string sentence);
  bool empty() const { return problems_.empty(); }
  /// The problems, and a last line for each kind that was cut.
  std::vector<std::string> take();

 private:
  static constexpr std::int64_t kMostPerCheck = 24;
  std::vector<std::string> problems_;
  std::int64_t found_[static_cast<std::size_t>(Check::count)] = {};
};

/// A task and its place.
struct Node {
  std::int64_t phase = 0;
  std::int64_t index = 0;
  std::int32_t rank = 0;
  Role role = Role::compute;
  Task task;
};

/// Where a route's row stands.
struct RowAt {
  std::int32_t rank = -1;
  std::int64_t row = -1;
};

/// A pass of all ranks.
struct Program {
  const std::vector<Dims>& dims;
  const std::vector<ScheduleTables>& tables;
  Pass pass;
  std::vector<Node> nodes = {};                      ///< in the total order: an index is a position
  std::vector<std::vector<RowAt>> row_of_slot = {};  ///< [R][T*K] rank -1 = dropped route

  std::int32_t ranks() const { return static_cast<std::int32_t>(dims.size()); }
  std::int64_t tiles(std::int32_t rank) const { return tables[rank].header->num_tiles; }
  std::int64_t tokens(std::int32_t rank) const { return tables[rank].header->num_tokens; }
  std::int64_t token_tiles(std::int32_t rank) const { return ceil_div(tokens(rank), kRowTile); }
  std::int64_t steps(std::int32_t rank) const {
    const std::int64_t all = tiles(rank);
    const std::int64_t used = pass == Pass::recompute ? min(all, dims[rank].macrobatch_tiles) : all;
    return ceil_div(used, dims[rank].minibatch_tiles);
  }
  /// Real rows of a row tile.
  std::int64_t rows_in_tile(std::int32_t rank, std::int64_t tile) const;
};

/// Whether an op pushes rows to slots of other ranks.
constexpr bool pushes(Op op) { return op == Op::down || op == Op::dx; }
constexpr bool is_dispatch(Op op) { return op == Op::dispatch_x || op == Op::dispatch_grad; }
constexpr bool is_sum(Op op) { return op == Op::weighted_sum || op == Op::grad_sum; }
constexpr bool is_weight_grad(Op op) { return op == Op::weight_grad || op == Op::shared_weight_grad; }

/// "rank 1's compute task 17 (gate_up of row tile 3, columns 128 to 255)".
std::string describe(const Node& node);
/// "counter gate_up_done[3] of rank 1".
std::string describe_counter(const Dims& dims, std::int64_t counter);

/// Checks the tables of all ranks against each other and fills row_of_slot. Nothing else may be looked at
/// before.
void check_tables(Program& program, Report& report);

/// Reads all tasks into nodes, checking the stretches and each task's bounds. A task that is out of bounds is
/// reported and left out.
void load_tasks(Program& program, const TaskSource& source, Report& report);

/// Why a task cannot be run where it stands; empty when it can.
std::string bounds_complaint(const Program& program, std::int32_t rank, Role role, const Task& task);

}  // namespace mok::program::verifier
