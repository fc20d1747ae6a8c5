// SPDX-License-Identifier: Apache-2.0
// Checks of one tensor. What a good call never needs, such as a name, is put together only to say no: a call
// has microseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <mok/tensor.h>

#include "api/state.h"

namespace mok::api {

/// The name of a dtype in sentences, and its bytes.
const char* name_of(DType dtype);
std::int64_t size_of(DType dtype);

/// "cpu", "cuda:1"
std::string name_of(const Device& device);

/// What a sentence calls a tensor: "inputs[1].routed.gate".
struct TensorName {
  const char* list = "";
  std::size_t rank = 0;
  const char* group = nullptr;  ///< "routed"
  const char* part = nullptr;   ///< "gate"

  [[nodiscard]] TensorName of(const char* its_part) const { return {list, rank, group, its_part}; }
  [[nodiscard]] std::string text() const;
};

/// One dimension of an expected shape, with the letter that the documentation uses for it.
struct Dim {
  const char* letter = "";
  std::int64_t size = 0;
};

class Shape {
 public:
  Shape(std::initializer_list<Dim> dims) {
    for (const Dim& dim : dims) dims_[size_++] = dim;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  const Dim& operator[](std::size_t d) const { return dims_[d]; }
  [[nodiscard]] const Dim* begin() const { return dims_.data(); }
  [[nodiscard]] const Dim* end() const { return dims_.data() + size_; }

 private:
  std::array<Dim, ConstTensorView::kMaxDims> dims_{};
  std::size_t size_ = 0;
};

/// dtype, device, shape, contiguity (dimension 0 may have any stride when `strided_experts`), data.
/// Overlapping experts are refused when `writable`.
struct TensorRule {
  DType dtype = DType::bf16;
  Shape shape;
  bool strided_experts = false;
  bool writable = false;
};
void check_tensor(const WorkspaceState& workspace, const TensorName& name, const ConstTensorView& tensor,
                  const TensorRule& rule);

}  // namespace mok::api
