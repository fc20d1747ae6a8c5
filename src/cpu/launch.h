// SPDX-License-Identifier: Apache-2.0
// One pass on all ranks of this process, ready to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpu/event_log.h"
#include "group/fault_plan.h"
#include "ops/rank_view.h"
#include "program/op.h"

namespace mok::cpu {

/// Control words of one rank in local memory.
struct LocalControl {
  std::uint32_t* counters = nullptr;        ///< the set of this pass, all zero at its start
  std::uint32_t* spare_counters = nullptr;  ///< the other set, to be cleared before the pass ends
  std::uint64_t* tickets = nullptr;         ///< [kNumRoles]
  std::uint32_t* published = nullptr;       ///< steps published so far
};

struct RankLaunch {
  ops::RankView view;
  LocalControl control;
};

struct Settings {
  int workers[program::kNumRoles] = {1, 1};
  double arrival_deadline_seconds = 600;  ///< 0 = for ever
  double progress_deadline_seconds = 30;  ///< 0 = for ever
  std::uint64_t timing_seed = 0;          ///< 0 = no shuffling
  group::FaultPlan faults;
  EventLog* log = nullptr;  ///< null = nothing is recorded
};

struct Launch {
  program::Pass pass = program::Pass::forward;
  std::uint64_t epoch = 0;  ///< of this pass; every pass of a workspace has the next one
  std::vector<RankLaunch> ranks;
  Settings settings;
};

/// The first wait that ran into its deadline.
struct WaitFailure {
  int rank = -1;
  int worker = -1;
  std::string role;
  std::string op;
  std::int64_t tile = -1;
  std::string counter;
  std::uint64_t expected = 0;
  std::uint64_t seen = 0;
  double seconds = 0;
};

}  // namespace mok::cpu
