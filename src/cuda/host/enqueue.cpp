// SPDX-License-Identifier: Apache-2.0
// Enqueues a pass as one launch, or staged as many.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mok/error.h>

#include "cuda/host/cuda_check.h"
#include "cuda/host/launch.h"
#include "cuda/host/tensor_maps.h"
#include "cuda/host/tile_choice.h"
#include "cuda/kernel/pass_kernel.h"
#include "cuda/pipeline/plan.h"

namespace mok::cuda {
namespace {

using program::Op;
using program::Pass;

static_assert(kMaxVirtualRanks == kMaxPlans);
static_assert(sizeof(LaunchParams) <= 32764, "kernel parameters have a limit");

/// SMs of the current device. The kernel may also use its shared memory from here on.
int prepare_kernel() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaFuncSetAttribute(pass_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(pass_kernel_shared_bytes())),
        "cudaFuncSetAttribute");
  return sms;
}

std::uint64_t nanoseconds(double seconds) {
  if (!(seconds > 0) || std::isinf(seconds)) return 0;  // never
  constexpr double kLongest = 1e18;
  return static_cast<std::uint64_t>(std::fmin(seconds * 1e9, kLongest));
}

void fill_params(const PassLaunch& launch, LaunchParams& params) {
  params.ranks = static_cast<std::int32_t>(launch.ranks.size());
  params.ctas_per_rank = prepare_kernel() / params.ranks;
  if (params.ctas_per_rank < 2) {
    throw Error(fmt::format("ranks is {}, but the GPU has too few SMs to give each of them 2", params.ranks));
  }
  for (std::size_t r = 0; r < launch.ranks.size(); ++r) {
    RankPlan& plan = params.plans[r];
    plan.view = launch.ranks[r].view;
    plan.control = launch.ranks[r].control;
    encode_maps(plan, launch.ranks[r].num_tokens);
  }
  const int chosen = launch.comm_ctas > 0 ? launch.comm_ctas
                                          : choose_comm_ctas(launch.ranks[0].view.dims, params.ctas_per_rank);
  params.comm_ctas = std::min(chosen, params.ctas_per_rank - 1);
  params.never_ready_rank = launch.faults.never_ready_rank;
  params.stuck_rank = launch.faults.stuck_rank;
  params.stuck_after = launch.faults.stuck_after;
  params.arrival_deadline_ns = nanoseconds(launch.arrival_deadline_seconds);
  params.progress_deadline_ns = nanoseconds(launch.progress_deadline_seconds);
  params.status = launch.status;
  params.timeline = launch.timeline;
  params.multiply_only = launch.multiply_only;
}

void enqueue(LaunchParams& params, void* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(params.ranks * params.ctas_per_rank));
  config.blockDim = dim3(static_cast<unsigned>(pass_kernel_threads()));
  config.dynamicSmemBytes = pass_kernel_shared_bytes();
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute{};
  if (params.ranks > 1) {  // ranks wait for one another: all CTAs must run at once, or none
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  void* arguments[] = {&params};
  check(cudaLaunchKernelExC(&config, pass_kernel(), arguments), "cudaLaunchKernelExC");
}

/// Ops of a macrobatch along the data flow.
constexpr Op kRoutedFlow[] = {Op::dispatch_x, Op::gate_up, Op::down};
constexpr Op kSharedFlow[] = {Op::shared_gate_up, Op::shared_down};

/// How many macrobatches there are is known on the GPU alone: stages of those that do not occur find no task.
std::vector<StageFilter> stages_of(const PassLaunch& launch) {
  const program::Dims& dims = launch.ranks[0].view.dims;
  std::vector<StageFilter> stages;
  const auto add = [&](Op op, std::int64_t macrobatch) {
    stages.push_back({static_cast<std::int32_t>(op), static_cast<std::int32_t>(macrobatch), false, false});
  };
  if (dims.shared_intermediate > 0) {
    for (const Op op : kSharedFlow) add(op, 0);
  }
  const std::int64_t macrobatches = launch.pass == Pass::recompute ? 1 : dims.max_macrobatches();
  for (std::int64_t m = macrobatches - 1; m >= 0; --m) {
    for (const Op op : kRoutedFlow) add(op, m);
  }
  if (launch.pass == Pass::forward) add(Op::weighted_sum, 0);
  stages.front().is_first = true;
  stages.back().is_last = true;
  return stages;
}

}  // namespace

void enqueue_pass(const PassLaunch& launch) {
  const auto params = std::make_unique<LaunchParams>();
  fill_params(launch, *params);
  if (!launch.staged) return enqueue(*params, launch.stream);
  for (const StageFilter& stage : stages_of(launch)) {
    params->stage = stage;
    enqueue(*params, launch.stream);
  }
}

}  // namespace mok::cuda
