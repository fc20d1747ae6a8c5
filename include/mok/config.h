// SPDX-License-Identifier: Apache-2.0
// The tunables of the layer and the sizes that a workspace is made for.
#pragma once

#include <cstdint>
#include <optional>

#include <mok/tensor.h>

namespace mok {

/// Settings of the CPU backend.
struct CpuOptions {
  /// Compute workers (threads) per rank; 0 = the machine's cores divided by the ranks, at least one. 0..256.
  int num_compute_workers = 0;
  /// 0 = off. Any other value shuffles the timing of all workers from this seed: a hunt for ordering faults.
  std::uint64_t timing_seed = 0;
};

/// Tunables. None of them changes a bit of any result. Out-of-range values are refused when a workspace is
/// made.
struct Config {
  /// SMs that communicate, shared by the virtual ranks of a GPU, at least one for each (CPU: worker threads
  /// per rank). Unset = chosen for the device. 1..256.
  std::optional<int> fwd_num_comm_sms;
  std::optional<int> bwd_num_comm_sms;
  /// Rows per step of the task order, the granularity of overlap: a multiple of 128.
  std::int64_t minibatch_size = 4096;
  /// Rows that the ring buffers and a context hold: a multiple of minibatch_size. More rows than this are
  /// recomputed in backward; raise it to trade memory for time.
  std::int64_t macrobatch_size = 131072;
  /// A rank's tables hold max_tokens * topk * min(R, max(2, ceil(R * multiplier))) routed rows. 1.0 can never
  /// overflow. (0, 1].
  double schedule_capacity_multiplier = 0.5;
  /// Bytes per copy when expert ids are gathered from peers; the CPU backend gathers by rank. A multiple
  /// of 16.
  std::int64_t all_gather_top_experts_chunk_bytes = 2048;
  /// Clamp of gate (from above) and up (both sides) before SwiGLU: a finite number > 0. Unset = none.
  std::optional<float> swiglu_limit;
  /// Seconds that a pass waits for a peer to arrive (long: peers may be checkpointing or compiling). 0 = for
  /// ever.
  double arrival_deadline_seconds = 600;
  /// Seconds without any progress on any rank after which a pass gives up. 0 = never.
  double progress_deadline_seconds = 30;
  CpuOptions cpu;
};

/// What the symmetric part of a workspace is made for.
struct WorkspaceOptions {
  int ranks =
      1;  ///< R, the size of the expert-parallel group: virtual ranks of this process; at most 8 on a GPU
  std::int64_t max_tokens = 0;   ///< Tmax, the most tokens that a rank may bring
  std::int64_t hidden_size = 0;  ///< H, a multiple of 64
  int topk = 0;                  ///< K, routes per token; at most 32 on a GPU
  /// Chooses the backend: worker threads on the CPU, or the kernels on a GPU (of compute capability 9.0, in a
  /// build with MOK_CUDA). All tensors of all calls lie there; on a GPU they and their experts begin at
  /// multiples of 16 bytes.
  Device device{};
};

/// What the local part of a workspace is made for: one per kind of layer.
struct LayerShape {
  int num_experts = 0;                        ///< E, over all ranks; R divides it
  std::int64_t intermediate_size = 0;         ///< I, a multiple of 64
  std::int64_t shared_intermediate_size = 0;  ///< Is, a multiple of 64; 0 = no shared expert
};

}  // namespace mok
