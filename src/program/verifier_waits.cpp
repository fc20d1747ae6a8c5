// SPDX-License-Identifier: Apache-2.0
#include "program/verifier_waits.h"

#include <algorithm>
#include <string>

namespace mok::program::verifier {

using std::to_string;

WaitGraph::WaitGraph(const Program& program) : program_(program) {
  first_counter_.push_back(0);
  for (const Dims& dims : program.dims) {
    layouts_.push_back(CounterLayout::make(dims));
    first_counter_.push_back(first_counter_.back() + layouts_.back().size());
  }
  const auto for_each_signal = [&](const auto& visit) {
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      const Node& node = program.nodes[n];
      for (const std::int64_t signal : {node.task.signal, node.task.step_signal}) {
        if (signal >= 0) visit(global(node.rank, signal), static_cast<std::int32_t>(n));
      }
    }
  };
  begin_.assign(first_counter_.back() + 2, 0);
  // Counts stand two places up, so that filling moves each to where its counter ends.
  for_each_signal([&](std::int64_t counter, std::int32_t) { ++begin_[counter + 2]; });
  for (std::size_t c = 2; c < begin_.size(); ++c) begin_[c] += begin_[c - 1];
  signallers_.resize(begin_.back());
  for_each_signal([&](std::int64_t counter, std::int32_t n) { signallers_[begin_[counter + 1]++] = n; });

  wanted_.resize(program.nodes.size());
  reached_.resize(program.nodes.size());
  counter_seen_.resize(first_counter_.back());
}

std::int64_t WaitGraph::pushes(std::int32_t rank, std::int64_t step) const {
  if (program_.pass == Pass::recompute) return 0;
  return pushes_in_step(program_.dims[rank], program_.tables[rank], program_.pass, step);
}

void WaitGraph::check_counters(Report& report) const {
  for (const Node& node : program_.nodes) {
    for (int w = 0; w < node.task.num_waits; ++w) {
      const Wait& wait = node.task.waits[w];
      for (std::int64_t c = wait.counter; c < wait.counter + wait.count; ++c) {
        const std::int64_t count = signals(global(node.rank, c)).count();
        if (count == wait.at_least) continue;
        report.add(Report::Check::counters, describe(node) + " waits for " + to_string(wait.at_least) +
                                                " of " + describe_counter(program_.dims[node.rank], c) +
                                                ", which gets " + to_string(count) + " signals in the pass.");
      }
    }
  }
  for (std::int32_t rank = 0; rank < program_.ranks(); ++rank) {
    const std::int64_t steps = program_.dims[rank].max_steps();
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t count = signals(step_counter(rank, step)).count();
      const std::int64_t expected = step < program_.steps(rank) ? pushes(rank, step) : 0;
      if (count == expected) continue;
      report.add(Report::Check::counters,
                 describe_counter(program_.dims[rank], layouts_[rank].at(Counter::step_done, step)) +
                     " gets " + to_string(count) + " signals, but " + to_string(expected) +
                     " tasks push in that step.");
    }
  }
}

void WaitGraph::check_waits_deadlock(std::int32_t position, Report& report) const {
  const Node& node = program_.nodes[position];
  for (int w = 0; w < node.task.num_waits; ++w) {
    const Wait& wait = node.task.waits[w];
    for (std::int64_t c = wait.counter; c < wait.counter + wait.count; ++c) {
      const Signals all = signals(global(node.rank, c));
      const std::int64_t before = std::lower_bound(all.first, all.last, position) - all.first;
      if (before >= wait.at_least) continue;
      report.add(Report::Check::deadlock, describe(node) + " waits for " + to_string(wait.at_least) + " of " +
                                              describe_counter(program_.dims[node.rank], c) + ", but only " +
                                              to_string(before) + " signals stand before it in the order.");
    }
  }
}

void WaitGraph::check_steps_deadlock(std::int32_t position, Report& report) const {
  const Node& node = program_.nodes[position];
  for (std::int32_t q = 0; q < program_.ranks(); ++q) {
    for (std::int64_t step = 0; step < awaited_steps(node.task, q); ++step) {
      const Signals all = signals(step_counter(q, step));
      const std::int64_t before = std::lower_bound(all.first, all.last, position) - all.first;
      if (before >= pushes(q, step)) continue;
      report.add(Report::Check::deadlock, describe(node) + " waits for step " + to_string(step) +
                                              " of rank " + to_string(q) + ", but only " + to_string(before) +
                                              " of its pushes stand before it in the order.");
      break;
    }
  }
}

void WaitGraph::check_deadlock(Report& report) const {
  for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
    check_waits_deadlock(static_cast<std::int32_t>(n), report);
    check_steps_deadlock(static_cast<std::int32_t>(n), report);
  }
}

void WaitGraph::visit_signals(std::int64_t global_counter) {
  if (counter_seen_[global_counter] == stamp_) return;
  counter_seen_[global_counter] = stamp_;
  const Signals all = signals(global_counter);
  for (const std::int32_t* s = all.last; s != all.first && s[-1] >= lowest_; --s) {
    const std::int32_t signaller = s[-1];
    if (reached_[signaller] == stamp_) continue;
    reached_[signaller] = stamp_;
    if (wanted_[signaller] == stamp_) --missing_;
    queue_.push_back(signaller);
  }
}

void WaitGraph::visit_waits(const Node& node) {
  for (int w = 0; w < node.task.num_waits; ++w) {
    const Wait& wait = node.task.waits[w];
    for (std::int64_t c = wait.counter; c < wait.counter + wait.count; ++c) {
      // A wait for fewer signals than there are says nothing about any one of the signallers.
      if (wait.at_least >= signals(global(node.rank, c)).count()) visit_signals(global(node.rank, c));
    }
  }
  for (std::int32_t q = 0; q < program_.ranks(); ++q) {
    // Steps are published in order, so a later step's watermark covers the earlier ones.
    for (std::int64_t step = awaited_steps(node.task, q) - 1; step >= 0; --step) {
      const std::int64_t counter = step_counter(q, step);
      if (counter_seen_[counter] == stamp_) break;
      if (signals(counter).count() == pushes(q, step)) visit_signals(counter);
    }
  }
}

void WaitGraph::search(std::int32_t node, const std::vector<std::int32_t>& targets) {
  ++stamp_;
  missing_ = 0;
  lowest_ = node;
  for (const std::int32_t target : targets) {
    if (wanted_[target] == stamp_) continue;
    wanted_[target] = stamp_;
    lowest_ = std::min(lowest_, target);
    ++missing_;
  }
  queue_.clear();
  queue_.push_back(node);
  for (std::size_t head = 0; head < queue_.size() && missing_ > 0; ++head) {
    visit_waits(program_.nodes[queue_[head]]);
  }
}

}  // namespace mok::program::verifier
