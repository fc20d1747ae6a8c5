// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cpu/bodies.h"
#include "cpu/executor.h"
#include "cpu/flags.h"
#include "program/layout.h"
#include "program/task.h"

namespace mok::cpu {
namespace {

using program::Op;
using program::Pass;
using program::Role;

/// Ops along the data flow. Sums come last: they need the slots of every macrobatch.
constexpr Op kFlow[] = {
    Op::dispatch_x,  Op::dispatch_grad,      Op::shared_gate_up, Op::gate_up,   Op::shared_down,
    Op::down,        Op::shared_dhidden,     Op::dhidden,        Op::shared_dx, Op::dx,
    Op::weight_grad, Op::shared_weight_grad, Op::weighted_sum,   Op::grad_sum};

struct Stage {
  std::int64_t round;  ///< macrobatch in the order of the pass; sums stand behind all
  std::int64_t place;  ///< in kFlow
  auto operator<=>(const Stage&) const = default;
};

struct RankTask {
  std::size_t rank;
  Role role;
  std::int64_t index;
};

Stage stage_of(const program::Task& task, Pass pass, std::int64_t macrobatches) {
  const auto place = std::find(std::begin(kFlow), std::end(kFlow), task.op) - std::begin(kFlow);
  const bool is_sum = task.op == Op::weighted_sum || task.op == Op::grad_sum;
  const std::int64_t round = pass == Pass::forward ? macrobatches - 1 - task.macrobatch : task.macrobatch;
  // Shared ops name no macrobatch and sums need all: both are independent of the rounds but for their own
  // order.
  if (is_sum) return {macrobatches, place};
  return {program::is_shared(task.op) ? macrobatches - 1 : round, place};
}

}  // namespace

void run_staged(const Launch& launch) {
  std::int64_t macrobatches = 1;
  for (const RankLaunch& rank : launch.ranks) {
    macrobatches = std::max(
        macrobatches, program::ceil_div(rank.view.tables.header->num_tiles, rank.view.dims.macrobatch_tiles));
  }
  std::map<Stage, std::vector<RankTask>> stages;
  for (std::size_t r = 0; r < launch.ranks.size(); ++r) {
    const ops::RankView& view = launch.ranks[r].view;
    stage_inputs(view);
    for (const Role role : {Role::communication, Role::compute}) {
      const std::int64_t tasks = program::num_tasks(view.dims, view.tables, launch.pass, role);
      for (std::int64_t i = 0; i < tasks; ++i) {
        const program::Task task = program::decode_task(view.dims, view.tables, launch.pass, role, i);
        stages[stage_of(task, launch.pass, macrobatches)].push_back({r, role, i});
      }
    }
  }
  const auto buffer = std::make_unique<TileBuffer>();
  for (const auto& [stage, tasks] : stages) {
    // Backwards: within an op no task may depend on another's having run before it.
    for (auto it = tasks.rbegin(); it != tasks.rend(); ++it) {
      const ops::RankView& view = launch.ranks[it->rank].view;
      const program::Task task =
          program::decode_task(view.dims, view.tables, launch.pass, it->role, it->index);
      run_recorded(launch.settings.log, view.dims.rank, it->role, 0, task,
                   [&] { run_body(view, task, *buffer); });
    }
  }
  for (const RankLaunch& rank : launch.ranks) {
    const ops::RankView& view = rank.view;
    for (int peer = 0; peer < view.dims.ranks; ++peer) {
      raise_release(view.symmetric.ready.at(view.peers[peer]) + view.dims.rank, launch.epoch);
      raise_release(view.symmetric.done.at(view.peers[peer]) + view.dims.rank, launch.epoch);
    }
    store_release(view.symmetric.epoch.at(view.peers[view.dims.rank]), launch.epoch);
  }
}

}  // namespace mok::cpu
