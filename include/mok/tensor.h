// SPDX-License-Identifier: Apache-2.0
// Views of tensors that the caller owns. The library never copies or frees what a view points to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <mok/bfloat16.h>
#include <mok/error.h>

namespace mok {

enum class DType : std::uint8_t { bf16, f32, i32, i64 };

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  ///< GPU ordinal; 0 for the CPU
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

namespace detail {
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::i32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>, "mok tensors hold bfloat16, float, int32 or int64");
    return DType::i64;
  }
}
}  // namespace detail

/// A strided view of up to three dimensions. Void is `void` (writable) or `const void` (read only).
/// Strides count elements. A view without data (`defined()` is false) stands for an absent optional tensor.
template <class Void>
struct BasicTensorView {
  static constexpr int kMaxDims = 3;

  Void* data = nullptr;
  DType dtype = DType::bf16;
  int dims = 0;
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> stride{};
  Device device{};
  bool present = false;  ///< an empty tensor (T = 0) is present although its data may be null

  constexpr BasicTensorView() = default;

  /// A contiguous row-major tensor at `elements`.
  /// \throws InvalidArgument for more than kMaxDims sizes.
  template <class T>
  requires std::is_convertible_v<T*, Void*>
  constexpr BasicTensorView(T* elements, std::initializer_list<std::int64_t> sizes, Device where = {})
      : data(elements),
        dtype(detail::dtype_of<std::remove_const_t<T>>()),
        dims(static_cast<int>(sizes.size())),
        device(where),
        present(true) {
    if (sizes.size() > kMaxDims)
      throw InvalidArgument("a tensor view has more than 3 dimensions; give it 1 to 3");
    std::size_t i = 0;
    for (const std::int64_t size : sizes) shape[i++] = size;
    std::int64_t next = 1;
    for (int d = dims - 1; d >= 0; --d) {
      stride[static_cast<std::size_t>(d)] = next;
      next *= shape[static_cast<std::size_t>(d)];
    }
  }

  /// A writable view converts to a read-only one, implicitly, as T* does to const T*.
  // NOLINTBEGIN(google-explicit-constructor)
  template <class Other>
  requires(std::is_const_v<Void> &&
           !std::is_const_v<Other>) constexpr BasicTensorView(const BasicTensorView<Other>& other)
      : data(other.data),
        dtype(other.dtype),
        dims(other.dims),
        shape(other.shape),
        stride(other.stride),
        device(other.device),
        present(other.present) {}
  // NOLINTEND(google-explicit-constructor)

  /// The same tensor with another distance between experts (dimension 0), e.g. the gate half of a
  /// [El, 2I, H] tensor: `TensorView(w, {El, I, H}).with_expert_stride(2 * I * H)`.
  [[nodiscard]] constexpr BasicTensorView with_expert_stride(std::int64_t elements) const {
    BasicTensorView view = *this;
    view.stride[0] = elements;
    return view;
  }

  [[nodiscard]] constexpr bool defined() const { return present; }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

}  // namespace mok
