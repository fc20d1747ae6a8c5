// SPDX-License-Identifier: Apache-2.0
// Finds outputs that share memory with another tensor of the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <mok/layer.h>

#include "api/tensor_check.h"

namespace mok::api {

/// The memory that one call reads and writes. A pass reads its inputs until its end (the shared expert's
/// weight gradients come last), so an output on top of one would change results in silence.
class Footprints {
 public:
  void add_input(const TensorName& name, const ConstTensorView& tensor) { add(name, tensor, false); }
  void add_output(const TensorName& name, const ConstTensorView& tensor) { add(name, tensor, true); }
  void add_inputs(const TensorName& name, const ExpertWeights& weights);
  void add_outputs(const TensorName& name, const WeightGradients& gradients);

  /// Interleaved experts (gate and up as halves of one tensor) do not overlap.
  /// \throws InvalidArgument naming both tensors.
  void check() const;

 private:
  struct Tensor {
    TensorName name;
    ConstTensorView view;
    bool written;
  };
  /// A run of bytes: a tensor from its first byte to its last, or one expert of it.
  struct Run {
    const std::byte* begin;
    const std::byte* end;
    const Tensor* tensor;
  };

  void add(const TensorName& name, const ConstTensorView& tensor, bool written);
  [[nodiscard]] std::vector<Run> whole_tensors() const;
  [[nodiscard]] std::vector<Run> experts() const;
  /// The first pair that shares memory and is not read by both; null when there is none.
  static std::pair<const Tensor*, const Tensor*> clash(std::vector<Run>& runs);

  std::vector<Tensor> tensors_;
};

}  // namespace mok::api
