// SPDX-License-Identifier: Apache-2.0
// Finds outputs that share memory with another tensor of the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <mok/layer.h>

namespace mok::api {

/// The memory that one call reads and writes. A pass reads its inputs until its end (the shared expert's
/// weight gradients come last), so an output on top of one would change results in silence.
class Footprints {
 public:
  void add_input(const std::string& name, const ConstTensorView& tensor) { add(name, tensor, false); }
  void add_output(const std::string& name, const ConstTensorView& tensor) { add(name, tensor, true); }
  void add_inputs(const std::string& name, const ExpertWeights& weights);
  void add_outputs(const std::string& name, const WeightGradients& gradients);

  /// Interleaved experts (gate and up as halves of one tensor) do not overlap.
  /// \throws InvalidArgument naming both tensors.
  void check();

 private:
  /// A run of bytes: a tensor, or one expert of it.
  struct Run {
    const std::byte* begin;
    const std::byte* end;
    std::size_t tensor;
    bool written;
  };

  void add(const std::string& name, const ConstTensorView& tensor, bool written);

  std::vector<std::string> names_;
  std::vector<Run> runs_;
};

}  // namespace mok::api
