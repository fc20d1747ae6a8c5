// SPDX-License-Identifier: Apache-2.0
#include "api/overlap.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <mok/error.h>

#include "api/validate.h"

namespace mok::api {

void Footprints::add_inputs(const std::string& name, const ExpertWeights& weights) {
  add_input(name + ".gate", weights.gate);
  add_input(name + ".up", weights.up);
  add_input(name + ".down", weights.down);
}

void Footprints::add_outputs(const std::string& name, const WeightGradients& gradients) {
  add_output(name + ".gate", gradients.gate);
  add_output(name + ".up", gradients.up);
  add_output(name + ".down", gradients.down);
}

void Footprints::add(const std::string& name, const ConstTensorView& tensor, bool written) {
  if (!tensor.defined()) return;
  const bool per_expert = tensor.dims == 3;
  const std::int64_t runs = per_expert ? tensor.shape[0] : 1;
  std::int64_t elements = 1;
  for (int d = per_expert ? 1 : 0; d < tensor.dims; ++d)
    elements *= tensor.shape[static_cast<std::size_t>(d)];
  if (runs == 0 || elements == 0) return;
  const auto* const base = static_cast<const std::byte*>(tensor.data);
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::byte* const begin = base + (per_expert ? run * tensor.stride[0] : 0) * size_of(tensor.dtype);
    runs_.push_back({begin, begin + elements * size_of(tensor.dtype), names_.size(), written});
  }
  names_.push_back(name);
}

void Footprints::check() {
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) {
    return std::tie(a.begin, a.tensor) < std::tie(b.begin, b.tensor);
  });
  const Run* furthest = nullptr;          // of the runs so far, the one that ends last
  const Run* furthest_written = nullptr;  // of those that are written
  for (const Run& run : runs_) {
    const Run* const before = run.written ? furthest : furthest_written;
    if (before != nullptr && run.begin < before->end) {
      const Run& output = run.written ? run : *before;
      const Run& other = run.written ? *before : run;
      throw InvalidArgument(fmt::format(
          "{} overlaps {} in memory; an output must share no memory with another tensor of the call",
          names_[output.tensor], names_[other.tensor]));
    }
    if (furthest == nullptr || run.end > furthest->end) furthest = &run;
    if (run.written && (furthest_written == nullptr || run.end > furthest_written->end))
      furthest_written = &run;
  }
}

}  // namespace mok::api
