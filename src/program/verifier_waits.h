// SPDX-License-Identifier: Apache-2.0
// Waits and signals of a pass as a graph: who waits for whom, and what stands before what because of it.
#pragma once

#include <cstdint>
#include <vector>

#include "program/verifier_program.h"

namespace mok::program::verifier {

/// Tasks are nodes by position; counters and watermarks stand between signallers and waiters. Only waits
/// order tasks: two tasks of one rank may run at the same time on different workers, whoever claims first.
class WaitGraph {
 public:
  explicit WaitGraph(const Program& program);

  /// A wait must ask for all signals that a counter ever gets: less would order it behind nobody in
  /// particular, more would never come. A step is over when step_done reaches pushes_in_step.
  void check_counters(Report& report) const;
  /// All signals that a task waits for come from tasks that stand before it.
  void check_deadlock(Report& report) const;

  /// Marks what happens before `node` as far back as needed to decide about `targets` (positions).
  void search(std::int32_t node, const std::vector<std::int32_t>& targets);
  /// Whether `earlier`, one of the targets of the last search, happens before that search's node.
  bool reached(std::int32_t earlier) const { return reached_[earlier] == stamp_; }

 private:
  struct Signals {
    const std::int32_t* first;
    const std::int32_t* last;
    std::int64_t count() const { return last - first; }
  };
  std::int64_t global(std::int32_t rank, std::int64_t counter) const {
    return first_counter_[rank] + counter;
  }
  Signals signals(std::int64_t global_counter) const {
    return {signallers_.data() + begin_[global_counter], signallers_.data() + begin_[global_counter + 1]};
  }
  std::int64_t step_counter(std::int32_t rank, std::int64_t step) const {
    return global(rank, layouts_[rank].at(Counter::step_done, step));
  }
  /// Steps of rank q that a task waits for.
  std::int64_t awaited_steps(const Task& task, std::int32_t q) const {
    return min(task.peer_steps, program_.steps(q));
  }
  std::int64_t pushes(std::int32_t rank, std::int64_t step) const;
  void visit_signals(std::int64_t global_counter);
  void visit_waits(const Node& node);
  void check_waits_deadlock(std::int32_t position, Report& report) const;
  void check_steps_deadlock(std::int32_t position, Report& report) const;

  const Program& program_;
  std::vector<CounterLayout> layouts_;
  std::vector<std::int64_t> first_counter_;  // [R+1]
  std::vector<std::int64_t> begin_;          // [counters+1] into signallers_
  std::vector<std::int32_t> signallers_;     // positions, ascending per counter

  // The last search.
  std::uint32_t stamp_ = 0;
  std::int32_t lowest_ = 0;
  std::int64_t missing_ = 0;
  std::vector<std::uint32_t> wanted_, reached_, counter_seen_;
  std::vector<std::int32_t> queue_;
};

}  // namespace mok::program::verifier
