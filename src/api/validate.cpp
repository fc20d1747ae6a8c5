// SPDX-License-Identifier: Apache-2.0
#include "api/validate.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mok/error.h>

namespace mok::api {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw InvalidArgument(fmt::format(text, std::forward<Args>(args)...));
}

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
// Bounds that keep every product of sizes far inside 64 bits; nothing near them fits a machine.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr int kMaxRanks = 1024;
constexpr int kMaxExperts = 1 << 16;
constexpr int kMaxTopk = 1024;
constexpr int kMaxWorkers = 256;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

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

std::string shape_of(const ConstTensorView& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape.begin(), tensor.shape.begin() + tensor.dims, ","));
}

/// "[T,H]"
std::string letters_of(const std::vector<Dim>& shape) {
  std::string letters;
  for (const Dim& dim : shape) letters.append(letters.empty() ? "" : ",").append(dim.letter);
  return "[" + letters + "]";
}

/// "[T,H] = [5,64]"
std::string describe(const std::vector<Dim>& shape) {
  std::string sizes;
  for (const Dim& dim : shape) sizes.append(sizes.empty() ? "" : ",").append(std::to_string(dim.size));
  return letters_of(shape) + " = [" + sizes + "]";
}

/// "none" for no limit.
std::string describe(ops::SwigluLimit limit) {
  return std::isinf(limit.value) ? "none" : fmt::format("{}", limit.value);
}

/// The number and sizes of dimensions; returns the number of elements. Sizes of the rule that were taken from
/// the tensor itself may be anything.
std::int64_t check_shape(const std::string& name, const ConstTensorView& tensor, const TensorRule& rule) {
  if (tensor.dims != static_cast<int>(rule.shape.size())) {
    refuse("{} is {}-dimensional; it must be {}-dimensional, {}", name, tensor.dims, rule.shape.size(),
           letters_of(rule.shape));
  }
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rule.shape.size(); ++d) {
    const std::int64_t size = tensor.shape[d];
    if (size < 0) refuse("{} has shape {}; every size must be at least 0", name, shape_of(tensor));
    if (size != rule.shape[d].size) {
      refuse("{} has shape {}; it must be {}", name, shape_of(tensor), describe(rule.shape));
    }
    if (size > 0 && elements > kMaxElements / size) {
      refuse("{} has shape {}; it must have at most {} elements", name, shape_of(tensor), kMaxElements);
    }
    elements *= size;
  }
  return elements;
}

void check_strides(const std::string& name, const ConstTensorView& tensor, const TensorRule& rule) {
  std::int64_t elements = 1;
  for (std::size_t d = rule.shape.size(); d-- > 0;) {
    const std::int64_t size = tensor.shape[d];
    const std::int64_t stride = tensor.stride[d];
    if (size <= 1) continue;
    if (!rule.strided_experts || d > 0) {
      if (stride != elements) {
        refuse("{} has stride {} in dimension {}; it must be contiguous there (stride {})", name, stride, d,
               elements);
      }
    } else {
      const std::int64_t least = rule.writable ? elements : 0;
      if (stride < least) {
        refuse("{} has {} elements from expert to expert; it must have at least {}", name, stride, least);
      }
      if (stride > kMaxElements / size) {
        refuse("{} has {} elements from expert to expert; it must have at most {}", name, stride,
               kMaxElements / size);
      }
    }
    elements *= size;
  }
}

}  // namespace

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f32:
      return "f32";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
  }
  return "unknown";
}

std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 2;
    case DType::i64:
      return 8;
    default:
      return 4;
  }
}

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
  if (options.device.type != DeviceType::cpu) {
    refuse("device is cuda:{}; this build has the CPU backend only, so it must be cpu", options.device.index);
  }
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

void check_tensor(const std::string& name, const ConstTensorView& tensor, const TensorRule& rule) {
  if (!tensor.defined()) {
    refuse("{} is missing; it must be a tensor {} of {}", name, letters_of(rule.shape), name_of(rule.dtype));
  }
  if (tensor.dtype != rule.dtype) {
    refuse("{} is {}; it must be {}", name, name_of(tensor.dtype), name_of(rule.dtype));
  }
  if (tensor.device.type != DeviceType::cpu) {
    refuse("{} is on cuda:{}; it must be on the CPU, where its workspace is", name, tensor.device.index);
  }
  const std::int64_t elements = check_shape(name, tensor, rule);
  if (elements == 0) return;
  check_strides(name, tensor, rule);
  if (tensor.data == nullptr) {
    refuse("{} has no data (a null pointer); it must hold {} elements", name, elements);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % static_cast<std::uintptr_t>(size_of(rule.dtype)) != 0) {
    refuse("{} begins at address {:#x}; a tensor of {} must begin at a multiple of {}", name, address,
           name_of(rule.dtype), size_of(rule.dtype));
  }
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
  if (gate.dims != 3) check_tensor("inputs[0].routed.gate", gate, {DType::bf16, {local, {"I", 0}, outer}});
  layer.intermediate_size = gate.shape[1];
  check_width("intermediate_size (rows of inputs[0].routed.gate)", layer.intermediate_size);
  const ConstTensorView& shared_gate = weights[0].shared->gate;
  if (shared_gate.defined()) {
    if (shared_gate.dims != 2)
      check_tensor("inputs[0].shared.gate", shared_gate, {DType::bf16, {{"Is", 0}, outer}});
    layer.shared_intermediate_size = shared_gate.shape[0];
    check_width("shared_intermediate_size (rows of inputs[0].shared.gate)", layer.shared_intermediate_size);
  }
  check_layer(layer, options);
  const Dim inner{"I", layer.intermediate_size};
  const Dim shared{"Is", layer.shared_intermediate_size};
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const std::string routed_name = fmt::format("inputs[{}].routed.", rank);
    const ExpertWeights& routed = *weights[rank].routed;
    check_tensor(routed_name + "gate", routed.gate, {DType::bf16, {local, inner, outer}, true});
    check_tensor(routed_name + "up", routed.up, {DType::bf16, {local, inner, outer}, true});
    if (with_down)
      check_tensor(routed_name + "down", routed.down, {DType::bf16, {local, outer, inner}, true});
    const ExpertWeights& mine = *weights[rank].shared;
    const std::string shared_name = fmt::format("inputs[{}].shared.", rank);
    if (shared.size == 0) {
      for (const auto& [tensor, part] :
           {std::pair{&mine.gate, "gate"}, {&mine.up, "up"}, {&mine.down, "down"}}) {
        if (!tensor->defined()) continue;
        refuse(
            "{}{} is given but inputs[0].shared.gate is not; a shared expert needs its weights on every rank",
            shared_name, part);
      }
      continue;
    }
    check_tensor(shared_name + "gate", mine.gate, {DType::bf16, {shared, outer}});
    check_tensor(shared_name + "up", mine.up, {DType::bf16, {shared, outer}});
    if (with_down) check_tensor(shared_name + "down", mine.down, {DType::bf16, {outer, shared}});
  }
  return layer;
}

void check_rows(const ScheduleState& schedule, int rank, const char* name, const ConstTensorView& tensor,
                DType dtype, Dim columns, bool writable) {
  const std::string full = fmt::format("inputs[{}].{}", rank, name);
  check_tensor(full, tensor,
               {dtype, {{"T of the schedule", schedule.num_tokens(rank)}, columns}, false, writable});
}

void check_no_gradients(const std::string& name, const WeightGradients& gradients) {
  if (!gradients.gate.defined() && !gradients.up.defined() && !gradients.down.defined()) return;
  refuse(
      "{} is given, but inputs[0].shared has no weights; it must be left out where there is no shared expert",
      name);
}

void check_gradients(const std::string& name, const WeightGradients& gradients, const LayerShape& layer,
                     const WorkspaceOptions& options, bool shared) {
  const DType dtype = gradients.gate.dtype;
  if (gradients.gate.defined() && dtype != DType::bf16 && dtype != DType::f32) {
    refuse("{}.gate is {}; it must be bf16 (fresh gradients) or f32 (a main_grad to add to)", name,
           name_of(dtype));
  }
  for (const auto& [tensor, part] : {std::pair{&gradients.up, "up"}, {&gradients.down, "down"}}) {
    if (!tensor->defined() || !gradients.gate.defined() || tensor->dtype == dtype) continue;
    refuse("{}.{} is {}; it must be {}, which {}.gate is: the three are all bf16 or all f32", name, part,
           name_of(tensor->dtype), name_of(dtype), name);
  }
  std::vector<Dim> wide{{"I", layer.intermediate_size}, {"H", options.hidden_size}};
  std::vector<Dim> tall{{"H", options.hidden_size}, {"I", layer.intermediate_size}};
  if (shared) {
    wide[0] = tall[1] = {"Is", layer.shared_intermediate_size};
  } else {
    const Dim local{"El", layer.num_experts / options.ranks};
    wide.insert(wide.begin(), local);
    tall.insert(tall.begin(), local);
  }
  check_tensor(name + ".gate", gradients.gate, {dtype, wide, !shared, true});
  check_tensor(name + ".up", gradients.up, {dtype, wide, !shared, true});
  check_tensor(name + ".down", gradients.down, {dtype, tall, !shared, true});
}

}  // namespace mok::api
