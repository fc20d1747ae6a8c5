// SPDX-License-Identifier: Apache-2.0
#include "api/validate.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "api/refuse.h"
#include "cuda/host/launch.h"

namespace mok::api {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
// Bounds that keep every product of sizes far inside 64 bits; nothing near them fits a machine.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr int kMaxRanks = 1024;
constexpr int kMaxGpus = 1024;
constexpr int kMaxExperts = 1 << 16;
constexpr int kMaxTopk = 1024;
/// A warp weighs the routes of a token, one in each lane.
constexpr int kMaxTopkOnGpu = 32;
constexpr int kMaxWorkers = 256;

void check_width(const char* name, std::int64_t value) {
  if (value <= 0 || value % 64 != 0 || value > kMaxWidth) {
    refuse("{} is {}; it must be a multiple of 64 from 64 to {}", name, value, kMaxWidth);
  }
}

template <class Int>
void check_range(const char* name, Int value, Int low, Int high) {
  if (value < low || value > high) refuse("{} is {}; it must be from {} to {}", name, value, low, high);
}

void check_seconds(const char* name, double value) {
  if (!(value >= 0) || std::isinf(value)) {
    refuse("{} is {}; it must be a finite number of seconds, 0 for no deadline", name, value);
  }
}

/// What a GPU needs beyond what any device does. Whether it is there is asked when memory is wanted.
void check_device(const WorkspaceOptions& options) {
  if (options.device.type == DeviceType::cpu) return;
  if (!has_cuda_backend())
    refuse("device is {}; {}, or let it be cpu", name_of(options.device), kNoCudaBackend);
  check_range("device.index", options.device.index, 0, kMaxGpus - 1);
  check_range("ranks on one GPU", options.ranks, 1, cuda::kMaxVirtualRanks);
  check_range("topk on a GPU", options.topk, 1, kMaxTopkOnGpu);
}

/// "none" for no limit.
std::string describe(ops::SwigluLimit limit) {
  return std::isinf(limit.value) ? "none" : fmt::format("{}", limit.value);
}

void check_no_shared(const TensorName& name, const ExpertWeights& weights) {
  for (const auto& [tensor, part] :
       {std::pair{&weights.gate, "gate"}, {&weights.up, "up"}, {&weights.down, "down"}}) {
    if (!tensor->defined()) continue;
    refuse("{} is given but inputs[0].shared.gate is not; a shared expert needs its weights on every rank",
           name.of(part).text());
  }
}

}  // namespace

void check_config(const Config& config) {
  if (config.fwd_num_comm_sms) check_range("fwd_num_comm_sms", *config.fwd_num_comm_sms, 1, kMaxWorkers);
  if (config.bwd_num_comm_sms) check_range("bwd_num_comm_sms", *config.bwd_num_comm_sms, 1, kMaxWorkers);
  check_range("cpu.num_compute_workers", config.cpu.num_compute_workers, 0, kMaxWorkers);
  if (config.minibatch_size < program::kRowTile || config.minibatch_size % program::kRowTile != 0 ||
      config.minibatch_size > kMaxInt32) {
    refuse("minibatch_size is {}; it must be a positive multiple of {} that fits 31 bits",
           config.minibatch_size, program::kRowTile);
  }
  if (config.macrobatch_size < config.minibatch_size || config.macrobatch_size % config.minibatch_size != 0 ||
      config.macrobatch_size > kMaxInt32) {
    refuse("macrobatch_size is {}; it must be a positive multiple of minibatch_size ({}) that fits 31 bits",
           config.macrobatch_size, config.minibatch_size);
  }
  if (!(config.schedule_capacity_multiplier > 0) || config.schedule_capacity_multiplier > 1) {
    refuse(
        "schedule_capacity_multiplier is {}; it must be greater than 0 and at most 1 (1 can never overflow)",
        config.schedule_capacity_multiplier);
  }
  const std::int64_t chunk = config.all_gather_top_experts_chunk_bytes;
  if (chunk < 16 || chunk % 16 != 0) {
    refuse("all_gather_top_experts_chunk_bytes is {}; it must be a positive multiple of 16", chunk);
  }
  static_cast<void>(swiglu_limit(config, {}));
  check_seconds("arrival_deadline_seconds", config.arrival_deadline_seconds);
  check_seconds("progress_deadline_seconds", config.progress_deadline_seconds);
}

void check_workspace_options(const WorkspaceOptions& options) {
  check_range("ranks", options.ranks, 1, kMaxRanks);
  check_range("topk", options.topk, 1, kMaxTopk);
  check_width("hidden_size", options.hidden_size);
  // Rows are counted in 32 bits, and one rank may get the routes of all.
  const std::int64_t most = kMaxInt32 / options.topk / options.ranks;
  check_range<std::int64_t>("max_tokens", options.max_tokens, 1, most);
  check_device(options);
}

void check_layer(const LayerShape& layer, const WorkspaceOptions& options) {
  check_range("num_experts", layer.num_experts, 1, kMaxExperts);
  if (layer.num_experts % options.ranks != 0) {
    refuse("num_experts is {}; it must be a multiple of ranks ({}), for every rank holds as many experts",
           layer.num_experts, options.ranks);
  }
  if (options.topk > layer.num_experts) {
    refuse("topk is {}; it must be at most num_experts ({}), for a token goes to different experts",
           options.topk, layer.num_experts);
  }
  check_width("intermediate_size", layer.intermediate_size);
  if (layer.shared_intermediate_size != 0)
    check_width("shared_intermediate_size", layer.shared_intermediate_size);
}

void check_entry_count(const char* name, std::size_t count, const WorkspaceOptions& options) {
  if (count != static_cast<std::size_t>(options.ranks)) {
    refuse("{} has a size of {}; it must have one entry per rank of the workspace ({})", name, count,
           options.ranks);
  }
}

void check_schedule(const WorkspaceState& workspace, const ScheduleState& schedule) {
  if (schedule.workspace_id != workspace.id) {
    refuse("schedule was built on another workspace (number {}); it must be built on this one (number {})",
           schedule.workspace_id, workspace.id);
  }
}

void check_context(const WorkspaceState& workspace, const ScheduleState& schedule,
                   const ContextState& context, const LayerShape& layer, const PassOptions& options) {
  if (context.workspace_id != workspace.id) {
    refuse("context was made on another workspace (number {}); it must be made on this one (number {})",
           context.workspace_id, workspace.id);
  }
  if (context.schedule_id != schedule.id) {
    refuse(
        "context was made from another schedule (number {}); it must be made from the one given (number {})",
        context.schedule_id, schedule.id);
  }
  if (key_of(context.layer) != key_of(layer)) {
    refuse(
        "context was made for I = {} and shared I = {}; the weights given have I = {} and shared I = {}, "
        "which must "
        "be the same",
        context.layer.intermediate_size, context.layer.shared_intermediate_size, layer.intermediate_size,
        layer.shared_intermediate_size);
  }
  const float limit = swiglu_limit(workspace.config, options).value;
  const bool given = options.swiglu_limit.has_value();
  if (given && limit != context.limit.value) {
    refuse("swiglu_limit is {}; it must be the forward pass's ({}) or left out", limit,
           describe(context.limit));
  }
}

ops::SwigluLimit swiglu_limit(const Config& config, const PassOptions& options) {
  const std::optional<float> limit = options.swiglu_limit ? options.swiglu_limit : config.swiglu_limit;
  if (!limit) return {};
  if (!(*limit > 0) || std::isinf(*limit)) {
    refuse("swiglu_limit is {}; it must be a finite number greater than 0, or left out for none", *limit);
  }
  return {*limit};
}

LayerShape check_weights(const WorkspaceState& workspace, const ScheduleState& schedule,
                         std::span<const WeightSet> weights, bool with_down) {
  const WorkspaceOptions& options = workspace.options;
  const std::int64_t hidden = options.hidden_size;
  LayerShape layer{schedule.num_experts, 0, 0};
  const Dim local{"El", layer.num_experts / options.ranks};
  const Dim outer{"H", hidden};
  // The widths of the layer are those of rank 0's first weights; all else is checked against them.
  const ConstTensorView& gate = weights[0].routed->gate;
  if (gate.dims != 3) {
    check_tensor(workspace, {"inputs", 0, "routed", "gate"}, gate, {DType::bf16, {local, {"I", 0}, outer}});
  }
  layer.intermediate_size = gate.shape[1];
  check_width("intermediate_size (rows of inputs[0].routed.gate)", layer.intermediate_size);
  const ConstTensorView& shared_gate = weights[0].shared->gate;
  if (shared_gate.defined()) {
    if (shared_gate.dims != 2) {
      check_tensor(workspace, {"inputs", 0, "shared", "gate"}, shared_gate,
                   {DType::bf16, {{"Is", 0}, outer}});
    }
    layer.shared_intermediate_size = shared_gate.shape[0];
    check_width("shared_intermediate_size (rows of inputs[0].shared.gate)", layer.shared_intermediate_size);
  }
  check_layer(layer, options);
  const Dim inner{"I", layer.intermediate_size};
  const Dim shared{"Is", layer.shared_intermediate_size};
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const TensorName routed_name{"inputs", rank, "routed"};
    const ExpertWeights& routed = *weights[rank].routed;
    const TensorRule wide{DType::bf16, {local, inner, outer}, true};
    check_tensor(workspace, routed_name.of("gate"), routed.gate, wide);
    check_tensor(workspace, routed_name.of("up"), routed.up, wide);
    if (with_down) {
      check_tensor(workspace, routed_name.of("down"), routed.down,
                   {DType::bf16, {local, outer, inner}, true});
    }
    const TensorName shared_name{"inputs", rank, "shared"};
    const ExpertWeights& mine = *weights[rank].shared;
    if (shared.size == 0) {
      check_no_shared(shared_name, mine);
      continue;
    }
    const TensorRule shared_wide{DType::bf16, {shared, outer}};
    check_tensor(workspace, shared_name.of("gate"), mine.gate, shared_wide);
    check_tensor(workspace, shared_name.of("up"), mine.up, shared_wide);
    if (with_down) check_tensor(workspace, shared_name.of("down"), mine.down, {DType::bf16, {outer, shared}});
  }
  return layer;
}

void check_rows(const WorkspaceState& workspace, const ScheduleState& schedule, int rank, const char* name,
                const ConstTensorView& tensor, DType dtype, Dim columns, bool writable) {
  check_tensor(workspace, {"inputs", static_cast<std::size_t>(rank), nullptr, name}, tensor,
               {dtype, {{"T of the schedule", schedule.num_tokens(rank)}, columns}, false, writable});
}

void check_no_gradients(const TensorName& name, const WeightGradients& gradients) {
  if (!gradients.gate.defined() && !gradients.up.defined() && !gradients.down.defined()) return;
  refuse(
      "{} is given, but inputs[0].shared has no weights; it must be left out where there is no shared expert",
      name.text());
}

void check_gradients(const WorkspaceState& workspace, const TensorName& name,
                     const WeightGradients& gradients, const LayerShape& layer, bool shared) {
  const DType dtype = gradients.gate.dtype;
  if (gradients.gate.defined() && dtype != DType::bf16 && dtype != DType::f32) {
    refuse("{}.gate is {}; it must be bf16 (fresh gradients) or f32 (a main_grad to add to)", name.text(),
           name_of(dtype));
  }
  for (const auto& [tensor, part] : {std::pair{&gradients.up, "up"}, {&gradients.down, "down"}}) {
    if (!tensor->defined() || !gradients.gate.defined() || tensor->dtype == dtype) continue;
    refuse("{}.{} is {}; it must be {}, which {}.gate is: the three are all bf16 or all f32", name.text(),
           part, name_of(tensor->dtype), name_of(dtype), name.text());
  }
  const Dim local{"El", layer.num_experts / workspace.options.ranks};
  const Dim outer{"H", workspace.options.hidden_size};
  const Dim inner = shared ? Dim{"Is", layer.shared_intermediate_size} : Dim{"I", layer.intermediate_size};
  const Shape wide = shared ? Shape{inner, outer} : Shape{local, inner, outer};
  const Shape tall = shared ? Shape{outer, inner} : Shape{local, outer, inner};
  check_tensor(workspace, name.of("gate"), gradients.gate, {dtype, wide, !shared, true});
  check_tensor(workspace, name.of("up"), gradients.up, {dtype, wide, !shared, true});
  check_tensor(workspace, name.of("down"), gradients.down, {dtype, tall, !shared, true});
}

void check_pass(const WorkspaceState& workspace, program::Pass pass, const PassOptions& options) {
  const Device& device = workspace.options.device;
  if (device.type == DeviceType::cuda && pass == program::Pass::backward) {
    refuse("backward was called on a workspace of {}; backward runs on the CPU backend only so far",
           name_of(device));
  }
  if (options.multiply_only && device.type == DeviceType::cpu) {
    refuse("multiply_only is true on a workspace of cpu; it measures a GPU, so let it be false here");
  }
  if (options.timeline == nullptr) return;
  const Device& recorded = options.timeline->state().device();
  if (recorded.type != device.type || (device.type == DeviceType::cuda && recorded.index != device.index)) {
    refuse("timeline was made for {}; it must be made for {}, the device of the workspace", name_of(recorded),
           name_of(device));
  }
}

}  // namespace mok::api
