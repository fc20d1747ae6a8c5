// SPDX-License-Identifier: Apache-2.0
// The layer: schedule, forward, backward, recompute.
//
// R = ranks, T = tokens of a rank (any number from 0 to max_tokens, its own on every rank), H = hidden, K =
// topk, E = experts, El = E / R (expert e lives on rank e / El), I = intermediate, Is = shared intermediate.
// Every function takes one entry per rank, in rank order. All tensors are row-major; activations are
// contiguous, routed weights and their gradients may have any distance between experts
// (TensorView::with_expert_stride). The formulas and every rounding point are in docs/numerics.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <mok/tensor.h>
#include <mok/timeline.h>
#include <mok/workspace.h>

namespace mok {

namespace api {
struct ScheduleState;
struct ContextState;
}  // namespace api

/// Where every route goes: built once per step from the router's choice, used by forward and backward.
/// A cheap handle to immutable tables, of use with its workspace alone. On a GPU it must go before the last
/// stream that it was used on, and stay for as long as a CUDA graph that uses it is replayed.
class Schedule {
 public:
  explicit Schedule(std::shared_ptr<const api::ScheduleState> state) : state_(std::move(state)) {}
  [[nodiscard]] const api::ScheduleState& state() const;
  // What the host can read of the tables; on a GPU the first call for a rank waits for the build and copies.
  // All three throw InvalidArgument for a rank outside [0, R), and on a GPU while the stream is being
  // captured.
  /// Real rows of each local expert of a rank, [El]. All zero after an overflow.
  [[nodiscard]] std::span<const std::int32_t> rows_per_expert(int rank) const;
  /// Source rank of each padded row of a rank (-1 = padding), [capacity].
  [[nodiscard]] std::span<const std::int32_t> source_rank(int rank) const;
  /// t * K + k at the source rank of each padded row of a rank (-1 = padding), [capacity].
  [[nodiscard]] std::span<const std::int32_t> source_slot(int rank) const;

 private:
  std::shared_ptr<const api::ScheduleState> state_;
};

/// What forward keeps for backward: x, gate and up of the first macrobatch's rows. Backward never writes it,
/// so it may run twice; many contexts may be alive on one workspace. On a GPU it must go before the last
/// stream that it was used on: its memory is given back behind the work of that stream, and nobody waits.
class ForwardContext {
 public:
  explicit ForwardContext(std::shared_ptr<const api::ContextState> state) : state_(std::move(state)) {}
  [[nodiscard]] const api::ContextState& state() const;
  /// Bytes held, over all ranks.
  [[nodiscard]] std::int64_t nbytes() const;

 private:
  std::shared_ptr<const api::ContextState> state_;
};

// No output may share memory with another tensor of the same call, on any rank.

/// Weights of routed ([El,I,H], [El,I,H], [El,H,I]) or shared ([Is,H], [Is,H], [H,Is]) experts, bf16.
struct ExpertWeights {
  ConstTensorView gate, up, down;
};

/// Gradients in the shapes of the weights. bf16: overwritten, an expert with no rows gets zeros. f32: a
/// main_grad, the gradient is added to it once, an expert with no rows leaves it untouched.
struct WeightGradients {
  TensorView gate, up, down;
};

struct ForwardInput {
  ConstTensorView x;               ///< bf16 [T,H]
  ConstTensorView router_weights;  ///< f32 [T,K]; any sign
  ExpertWeights routed;
  ExpertWeights shared;  ///< undefined views = no shared expert
  TensorView out;        ///< bf16 [T,H], written
};

struct RecomputeInput {
  ConstTensorView x;
  ExpertWeights routed;  ///< down is not read and may be undefined
  ExpertWeights shared;  ///< likewise
};

struct BackwardInput {
  ConstTensorView grad_output;     ///< bf16 [T,H]
  ConstTensorView x;               ///< bf16 [T,H], as in forward
  ConstTensorView router_weights;  ///< f32 [T,K], as in forward
  ExpertWeights routed;
  ExpertWeights shared;
  TensorView d_x;               ///< bf16 [T,H], written
  TensorView d_router_weights;  ///< f32 [T,K], written; 0 for dropped routes
  WeightGradients d_routed;
  WeightGradients d_shared;  ///< sums over this rank's tokens; reducing over ranks is the caller's
};

// ---- Where the work runs ----
// On the CPU every function returns when its pass is done. On a GPU it enqueues the pass on a stream and
// returns (nothing waits, and a stream that is being captured into a CUDA graph records the pass, once the
// workspace has its local part: Workspace::reserve). Passes of one workspace run one after the other, on
// whichever streams. What goes wrong on the GPU is told later: by Workspace::check(), or by the next call
// where it is known by then.

struct ScheduleOptions {
  /// A cudaStream_t of the workspace's GPU; null = the default stream. The CPU backend does not look at it.
  void* stream = nullptr;
};

struct PassOptions {
  /// Overrides Config::swiglu_limit for this pass. Backward takes the context's and refuses another.
  std::optional<float> swiglu_limit;
  /// One op at a time with a barrier between (CPU: on one thread): slow, the same bits. For debugging and
  /// tests.
  bool staged = false;
  /// For measuring the matrix products alone: a GPU loads their operands and multiplies, and does nothing
  /// else. The outputs are undefined. The CPU backend refuses it.
  bool multiply_only = false;
  /// As in ScheduleOptions.
  void* stream = nullptr;
  /// Records every task of the pass; made for the workspace's device. Null = off, which costs nearly nothing.
  Timeline* timeline = nullptr;
};

/// \param topk_experts one view per rank: int32 or int64 [T,K]; -1 = dropped route, else 0 <= id <
/// num_experts. On a GPU they are read when the stream comes to it. More rows than a rank can hold, or an id
/// out of range, makes the schedule unusable on every rank: passes then write NaN and Workspace::check()
/// throws RoutingError. \throws InvalidArgument
[[nodiscard]] Schedule build_schedule(Workspace& workspace, std::span<const ConstTensorView> topk_experts,
                                      int num_experts, const ScheduleOptions& options = {});

/// out[t] = shared(x[t]) + sum over k of router_weights[t,k] * expert[topk_experts[t,k]](x[t]).
/// \throws InvalidArgument, DeadlineExceeded
[[nodiscard]] ForwardContext forward(Workspace& workspace, const Schedule& schedule,
                                     std::span<const ForwardInput> inputs, const PassOptions& options = {});

/// The context that forward would give, same bits, without its output: for activation checkpointing.
/// \throws InvalidArgument, DeadlineExceeded
[[nodiscard]] ForwardContext recompute_forward_context(Workspace& workspace, const Schedule& schedule,
                                                       std::span<const RecomputeInput> inputs,
                                                       const PassOptions& options = {});

/// Gradients of sum(out * grad_output). On the CPU backend only so far.
/// \throws InvalidArgument, DeadlineExceeded
void backward(Workspace& workspace, const Schedule& schedule, const ForwardContext& context,
              std::span<const BackwardInput> inputs, const PassOptions& options = {});

}  // namespace mok
