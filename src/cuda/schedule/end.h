// SPDX-License-Identifier: Apache-2.0
// What a build says to peers and to the host. A schedule is a pass of the workspace as any other: it has an
// epoch, and raises ready and done. The ranks of one GPU share a stream, so that nobody needs to wait.
#pragma once

#include <cstdint>

#include "cuda/pipeline/flags.h"
#include "cuda/schedule/build.h"

namespace mok::cuda::schedule {

__device__ __forceinline__ std::uint64_t& epoch_of(const RankBuild& build) {
  return *build.symmetric.epoch.at(build.mine());
}

/// Raises a flag of this rank at every peer to the present epoch. One thread.
__device__ __forceinline__ void raise(const RankBuild& build, const program::Field<std::uint64_t>& flag) {
  const std::uint64_t epoch = epoch_of(build) + 1;
  for (int peer = 0; peer < build.dims.ranks; ++peer) {
    raise_release(flag.at(build.peers[peer]) + build.dims.rank, epoch);
  }
}

/// Copies the header into the host's memory. One thread.
__device__ __forceinline__ void tell_host(const program::ScheduleHeader& header, HostStatus* status) {
  static_assert(sizeof(header) % sizeof(std::uint64_t) == 0);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(&header);
  auto* const to = reinterpret_cast<volatile std::uint64_t*>(&status->schedule);
  for (std::size_t i = 0; i < sizeof(header) / sizeof(std::uint64_t); ++i) to[i] = from[i];
  __threadfence_system();
}

/// Ends the build for this rank. One thread, behind everything else that the rank does.
__device__ __forceinline__ void end_build(const RankBuild& build, HostStatus* status) {
  const SystemWord<std::uint64_t> abort(*build.symmetric.abort.at(build.mine()));
  if (abort.load(::cuda::memory_order_relaxed) == 0) raise(build, build.symmetric.done);
  ++epoch_of(build);
  if (build.dims.rank == 0 && status != nullptr) tell_host(*build.tables.header, status);
}

}  // namespace mok::cuda::schedule
