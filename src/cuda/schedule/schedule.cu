// SPDX-License-Identifier: Apache-2.0
// A schedule in six launches, each over all ranks. Every place in a table follows from prefix sums in the
// order of the routes, never from who came first: the result is program::build_schedule's, bit for bit.
#include <cstdint>

#include <cuda_runtime_api.h>

#include "cuda/host/cuda_check.h"
#include "cuda/host/launch.h"
#include "cuda/schedule/block.h"
#include "cuda/schedule/build.h"
#include "cuda/schedule/end.h"
#include "cuda/schedule/place.h"
#include "cuda/schedule/routes.h"
#include "cuda/schedule/sections.h"
#include "cuda/schedule/stage.h"
#include "cuda/schedule/token_order.h"

namespace mok::cuda {
namespace schedule {
namespace {

// Threads of the walks: small CTAs, so that few warps are spread over many SMs.
constexpr int kWalkThreads = 128;
// CTAs that stage and clear, over all ranks: enough to fill the memory's bandwidth.
constexpr int kStageThreads = 256;
constexpr int kStageCtas = 512;

__device__ __forceinline__ std::int64_t warp_of_rank() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
}

__device__ __forceinline__ bool is_refused(const RankBuild& build) {
  return build.tables.header->refusal != program::Refusal::none;
}

__global__ void __launch_bounds__(kStageThreads) stage_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.y];
  const Share share = Share::of_grid();
  stage_ids(build, share);
  clear_tables(build, share);
  clear_scratch(build, share);
}

__global__ void __launch_bounds__(kWalkThreads) count_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.y];
  if (blockIdx.x == 0 && threadIdx.x == 0) raise(build, build.symmetric.ready);
  if (warp_of_rank() >= build.dims.ranks * build.runs.count) return;
  count_routes(build, RouteRun::make(build, warp_of_rank()));
}

__global__ void __launch_bounds__(kScanThreads) place_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.y];
  const Counts counts{build.counts, build.dims.ranks * build.runs.count, build.dims.experts,
                      build.dims.experts};
  scan_columns(counts, static_cast<std::int64_t>(blockIdx.x) * kWarp, expert_rows(build));
  if (arrives_last(build.arrivals[rows_scanned], gridDim.x)) place_experts(build);
}

__global__ void __launch_bounds__(kWalkThreads) fill_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.y];
  if (is_refused(build)) return;
  name_tiles(build, Share::of_grid());
  if (warp_of_rank() >= build.dims.ranks * build.runs.count) return;
  const RouteRun run = RouteRun::make(build, warp_of_rank());
  fill_rows(build, run);
  if (run.source == build.dims.rank) count_needs(build, run);
}

__global__ void __launch_bounds__(kScanThreads) needs_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.z];
  const int table = static_cast<int>(blockIdx.y);
  if (is_refused(build)) return;
  const std::int64_t columns = build.tables.header->max_steps + 1;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp;
  if (first >= columns) return;
  const Counts counts{build.need_counts_of(table), build.token_runs.count, columns, build.bins()};
  scan_columns(counts, first, build.need_first_of(table));
  const std::int64_t ctas = program::ceil_div<std::int64_t>(columns, kWarp);
  if (arrives_last(build.arrivals[needs_scanned + table], ctas)) place_needs(build, table);
}

/// The first CTAs build the lists of a pass each, which takes longest; the others order tokens.
__global__ void __launch_bounds__(kSectionThreads) order_kernel(const __grid_constant__ BuildParams params) {
  const RankBuild& build = params.ranks[blockIdx.y];
  if (!is_refused(build)) {
    if (blockIdx.x < program::kNumPasses) {
      build_sections(build, static_cast<program::Pass>(blockIdx.x));
    } else {
      const std::int64_t warp = warp_of_rank() - program::kNumPasses * (kSectionThreads / kWarp);
      if (warp < kSumTables * build.token_runs.count) {
        order_tokens(build, static_cast<int>(warp / build.token_runs.count), warp % build.token_runs.count);
      }
    }
  }
  if (arrives_last(build.arrivals[end], gridDim.x) && threadIdx.x == 0) end_build(build, params.status);
}

/// CTAs of `threads` that hold that many warps.
unsigned ctas_for(std::int64_t warps, int threads) {
  return static_cast<unsigned>(program::ceil_div<std::int64_t>(warps, threads / kWarp));
}

RankBuild make_build(const ops::RankView& view, const RankRouting& routing) {
  const auto at = program::make_layout<ScratchLayout>(view.dims);
  RankBuild build;
  build.dims = view.dims;
  build.tables = view.tables;
  build.symmetric = view.symmetric;
  build.peers = view.peers;
  build.routing = routing;
  build.runs = Runs::of_routes(view.dims);
  build.token_runs = Runs::of_tokens(view.dims);
  build.arrivals = at.arrivals.at(routing.scratch);
  build.first_bad = at.first_bad.at(routing.scratch);
  build.counts = at.counts.at(routing.scratch);
  build.route_rows = at.route_rows.at(routing.scratch);
  build.needs = at.needs.at(routing.scratch);
  build.need_counts = at.need_counts.at(routing.scratch);
  build.need_first = at.need_first.at(routing.scratch);
  return build;
}

using Kernel = void (*)(BuildParams);

void launch_kernel(Kernel kernel, dim3 grid, int threads, BuildParams& params, void* stream) {
  void* arguments[] = {&params};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(static_cast<unsigned>(threads)),
                         arguments, 0, static_cast<cudaStream_t>(stream)),
        "cudaLaunchKernel");
}

}  // namespace
}  // namespace schedule

std::int64_t schedule_scratch_bytes(const program::Dims& dims) {
  return program::make_layout<schedule::ScratchLayout>(dims).bytes;
}

void enqueue_schedule(const ScheduleLaunch& launch) {
  using namespace schedule;
  static_assert(sizeof(BuildParams) <= 32764, "kernel parameters have a limit");
  BuildParams params;
  params.status = launch.status;
  const auto ranks = static_cast<unsigned>(launch.ranks.size());
  for (unsigned r = 0; r < ranks; ++r) params.ranks[r] = make_build(launch.ranks[r], launch.routing[r]);

  const RankBuild& first = params.ranks[0];
  const unsigned walks = ctas_for(first.dims.ranks * first.runs.count, kWalkThreads);
  const auto columns = [](std::int64_t bins) {
    return static_cast<unsigned>(program::ceil_div<std::int64_t>(bins, kWarp));
  };
  const unsigned orders =
      program::kNumPasses + ctas_for(kSumTables * first.token_runs.count, kSectionThreads);
  const auto run = [&](Kernel kernel, dim3 grid, int threads) {
    launch_kernel(kernel, grid, threads, params, launch.stream);
  };
  run(&stage_kernel, {kStageCtas / ranks, ranks}, kStageThreads);
  run(&count_kernel, {walks, ranks}, kWalkThreads);
  run(&place_kernel, {columns(first.dims.experts), ranks}, kScanThreads);
  run(&fill_kernel, {walks, ranks}, kWalkThreads);
  run(&needs_kernel, {columns(first.bins()), kSumTables, ranks}, kScanThreads);
  run(&order_kernel, {orders, ranks}, kSectionThreads);
}

}  // namespace mok::cuda
