// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "cuda/kernel/entry.h"
#include "cuda/kernel/exit.h"
#include "cuda/kernel/pass_kernel.h"
#include "cuda/ptx/registers.h"
#include "cuda/roles/consumer_role.h"
#include "cuda/roles/dispatch_role.h"
#include "cuda/roles/load_role.h"
#include "cuda/roles/store_role.h"
#include "cuda/roles/task_role.h"

namespace mok::cuda {
namespace {

// The warpgroup that moves data: one warp of it loads, two store, one prepares tasks.
constexpr int kProducers = kConsumers;
constexpr int kLoadWarp = 0;
constexpr int kTaskWarp = 3;

union SharedMemory {
  ComputeStorage compute;
  DispatchStorage dispatch;
};

/// Claims tiles and sums, a task ahead.
__device__ __forceinline__ void run_compute_task_role(const LaunchParams& params, const RankPlan& plan,
                                                      ComputeStorage& storage) {
  Cta& cta = storage.cta;
  const Waiter waiter{params, plan, cta.epoch, static_cast<std::int32_t>(program::Role::compute)};
  run_task_role(waiter, cta, program::Role::compute, storage.tasks, storage.records, storage.cursor,
                [&](TaskRecord& record) {
                  if (threadIdx.x % kWarp == 0) {
                    record.stores_done = 0;
                    if (record.task.step_signal >= 0) {
                      record.pushes_in_step = static_cast<std::uint32_t>(program::pushes_in_step(
                          plan.view.dims, plan.view.tables, plan.view.pass, record.task.step));
                    }
                  }
                  return true;
                });
}

__device__ __forceinline__ void run_producer_warps(const LaunchParams& params, const RankPlan& plan,
                                                   ComputeStorage& storage) {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroup / kWarp;
  if (warp == kLoadWarp) {
    if (threadIdx.x % kWarp == 0) run_load_role(params, plan, storage);
    __syncwarp();
  } else if (warp == kTaskWarp) {
    run_compute_task_role(params, plan, storage);
  } else {
    run_store_role(params, plan, storage, warp - 1);
  }
}

/// Dispatches first where that is this CTA's role. Afterwards every CTA computes.
__device__ __forceinline__ void begin_cta(const LaunchParams& params, SharedMemory& shared) {
  Cta cta;  // of thread 0
  Cta& dispatch_cta = shared.dispatch.cta;
  if (threadIdx.x == 0) {
    enter(params, cta);
    dispatch_cta = cta;
    if (cta.role == program::Role::communication) {
      shared.dispatch.init_barriers();
      shared.dispatch.cursor.begin(params.plans[cta.rank], program::Role::communication);
    }
  }
  for (std::uint32_t i = threadIdx.x; i < kZeroBytes; i += kThreads) shared.dispatch.zeros[i] = 0;
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);  // the zeros and barriers, to bulk copies
  __syncthreads();
  if (dispatch_cta.role == program::Role::communication) {
    run_dispatch_cta(params, params.plans[dispatch_cta.rank], shared.dispatch);
    __syncthreads();
    if (threadIdx.x == 0) {
      cta = dispatch_cta;
      shared.dispatch.invalidate_barriers();
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.compute.cta = cta;
    shared.compute.init_barriers();
    shared.compute.cursor.begin(params.plans[cta.rank], program::Role::compute);
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, 1) run_pass(const __grid_constant__ LaunchParams params) {
  extern __shared__ unsigned char shared_bytes[];
  SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);
  begin_cta(params, shared);
  ComputeStorage& storage = shared.compute;
  const RankPlan& plan = params.plans[storage.cta.rank];
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (warpgroup == kProducers) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    run_producer_warps(params, plan, storage);
    ptx::bar_sync(0, kThreads);
    leave(params, plan, storage.cta);
  } else {
    ptx::setmaxnreg_inc<kConsumerRegisters>();
    run_consumer_role(params, plan, storage, warpgroup);
    ptx::bar_sync(0, kThreads);
  }
}

}  // namespace

const void* pass_kernel() { return reinterpret_cast<const void*>(&run_pass); }
int pass_kernel_threads() { return kThreads; }
std::size_t pass_kernel_shared_bytes() { return sizeof(SharedMemory); }

}  // namespace mok::cuda
