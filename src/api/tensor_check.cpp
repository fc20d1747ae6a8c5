// SPDX-License-Identifier: Apache-2.0
#include "api/tensor_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/refuse.h"

namespace mok::api {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;
/// Tensor copies of a GPU read and write units of so many bytes.
constexpr std::int64_t kGpuAlignment = 16;
/// Bytes from expert to expert stay below 2^40 in a tensor copy.
constexpr std::int64_t kMaxGpuStride = (std::int64_t{1} << 40) - kGpuAlignment;

std::string shape_of(const ConstTensorView& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape.begin(), tensor.shape.begin() + tensor.dims, ","));
}

/// "[T,H]"
std::string letters_of(const Shape& shape) {
  std::string letters;
  for (const Dim& dim : shape) letters.append(letters.empty() ? "" : ",").append(dim.letter);
  return "[" + letters + "]";
}

/// "[T,H] = [5,64]"
std::string describe(const Shape& shape) {
  std::string sizes;
  for (const Dim& dim : shape) sizes.append(sizes.empty() ? "" : ",").append(std::to_string(dim.size));
  return letters_of(shape) + " = [" + sizes + "]";
}

/// The number and sizes of dimensions; returns the number of elements. Sizes of the rule that were taken from
/// the tensor itself may be anything.
std::int64_t check_shape(const TensorName& name, const ConstTensorView& tensor, const TensorRule& rule) {
  if (tensor.dims != static_cast<int>(rule.shape.size())) {
    refuse("{} is {}-dimensional; it must be {}-dimensional, {}", name.text(), tensor.dims, rule.shape.size(),
           letters_of(rule.shape));
  }
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rule.shape.size(); ++d) {
    const std::int64_t size = tensor.shape[d];
    if (size < 0) refuse("{} has shape {}; every size must be at least 0", name.text(), shape_of(tensor));
    if (size != rule.shape[d].size) {
      refuse("{} has shape {}; it must be {}", name.text(), shape_of(tensor), describe(rule.shape));
    }
    if (size > 0 && elements > kMaxElements / size) {
      refuse("{} has shape {}; it must have at most {} elements", name.text(), shape_of(tensor),
             kMaxElements);
    }
    elements *= size;
  }
  return elements;
}

void check_strides(const TensorName& name, const ConstTensorView& tensor, const TensorRule& rule) {
  std::int64_t elements = 1;
  for (std::size_t d = rule.shape.size(); d-- > 0;) {
    const std::int64_t size = tensor.shape[d];
    const std::int64_t stride = tensor.stride[d];
    if (size <= 1) continue;
    if (!rule.strided_experts || d > 0) {
      if (stride != elements) {
        refuse("{} has stride {} in dimension {}; it must be contiguous there (stride {})", name.text(),
               stride, d, elements);
      }
    } else {
      const std::int64_t least = rule.writable ? elements : 0;
      if (stride < least) {
        refuse("{} has {} elements from expert to expert; it must have at least {}", name.text(), stride,
               least);
      }
      if (stride > kMaxElements / size) {
        refuse("{} has {} elements from expert to expert; it must have at most {}", name.text(), stride,
               kMaxElements / size);
      }
    }
    elements *= size;
  }
}

void check_device(const TensorName& name, const Device& device, const Device& of_workspace) {
  if (device.type == of_workspace.type && (device.type == DeviceType::cpu || device == of_workspace)) return;
  const auto place = [](const Device& where) {
    return where.type == DeviceType::cpu ? "the CPU" : name_of(where);
  };
  refuse("{} is on {}; it must be on {}, where its workspace is", name.text(), place(device),
         place(of_workspace));
}

void check_alignment(const TensorName& name, const ConstTensorView& tensor, const TensorRule& rule) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % static_cast<std::uintptr_t>(size_of(rule.dtype)) != 0) {
    refuse("{} begins at address {:#x}; a tensor of {} must begin at a multiple of {}", name.text(), address,
           name_of(rule.dtype), size_of(rule.dtype));
  }
}

/// What the tensor copies of a GPU cannot do.
void check_for_gpu(const TensorName& name, const ConstTensorView& tensor, const TensorRule& rule) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (address % kGpuAlignment != 0) {
    refuse("{} begins at address {:#x}; on a GPU it must begin at a multiple of {}", name.text(), address,
           kGpuAlignment);
  }
  if (!rule.strided_experts || tensor.shape[0] <= 1) return;
  const std::int64_t unit = kGpuAlignment / size_of(rule.dtype);
  if (tensor.stride[0] % unit != 0 || tensor.stride[0] > kMaxGpuStride / size_of(rule.dtype)) {
    refuse("{} has {} elements from expert to expert; on a GPU it must have a multiple of {}, at most {}",
           name.text(), tensor.stride[0], unit, kMaxGpuStride / size_of(rule.dtype));
  }
}

}  // namespace

std::string name_of(const Device& device) {
  return device.type == DeviceType::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::string TensorName::text() const {
  std::string text = fmt::format("{}[{}]", list, rank);
  for (const char* const name : {group, part}) {
    if (name != nullptr) text.append(".").append(name);
  }
  return text;
}

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

void check_tensor(const WorkspaceState& workspace, const TensorName& name, const ConstTensorView& tensor,
                  const TensorRule& rule) {
  if (!tensor.defined()) {
    refuse("{} is missing; it must be a tensor {} of {}", name.text(), letters_of(rule.shape),
           name_of(rule.dtype));
  }
  if (tensor.dtype != rule.dtype) {
    refuse("{} is {}; it must be {}", name.text(), name_of(tensor.dtype), name_of(rule.dtype));
  }
  check_device(name, tensor.device, workspace.options.device);
  const std::int64_t elements = check_shape(name, tensor, rule);
  if (elements == 0) return;
  check_strides(name, tensor, rule);
  if (tensor.data == nullptr) {
    refuse("{} has no data (a null pointer); it must hold {} elements", name.text(), elements);
  }
  check_alignment(name, tensor, rule);
  if (workspace.options.device.type == DeviceType::cuda) check_for_gpu(name, tensor, rule);
  if (const std::string problem = workspace.backend->problem_of_memory(tensor.data); !problem.empty()) {
    refuse("{} {}", name.text(), problem);
  }
}

}  // namespace mok::api
