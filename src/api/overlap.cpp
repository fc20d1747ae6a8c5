// SPDX-License-Identifier: Apache-2.0
#include "api/overlap.h"

#include <algorithm>
#include <tuple>

#include "api/refuse.h"

namespace mok::api {
namespace {

/// Elements of one expert, or of a tensor that has no experts.
std::int64_t elements_of_run(const ConstTensorView& tensor) {
  std::int64_t elements = 1;
  for (int d = tensor.dims == 3 ? 1 : 0; d < tensor.dims; ++d) {
    elements *= tensor.shape[static_cast<std::size_t>(d)];
  }
  return elements;
}

std::int64_t runs_of(const ConstTensorView& tensor) { return tensor.dims == 3 ? tensor.shape[0] : 1; }

}  // namespace

void Footprints::add_inputs(const TensorName& name, const ExpertWeights& weights) {
  add_input(name.of("gate"), weights.gate);
  add_input(name.of("up"), weights.up);
  add_input(name.of("down"), weights.down);
}

void Footprints::add_outputs(const TensorName& name, const WeightGradients& gradients) {
  add_output(name.of("gate"), gradients.gate);
  add_output(name.of("up"), gradients.up);
  add_output(name.of("down"), gradients.down);
}

void Footprints::add(const TensorName& name, const ConstTensorView& tensor, bool written) {
  if (!tensor.defined() || runs_of(tensor) == 0 || elements_of_run(tensor) == 0) return;
  tensors_.push_back({name, tensor, written});
}

std::vector<Footprints::Run> Footprints::whole_tensors() const {
  std::vector<Run> runs;
  runs.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    const ConstTensorView& view = tensor.view;
    const auto* const begin = static_cast<const std::byte*>(view.data);
    const std::int64_t last = view.dims == 3 ? (runs_of(view) - 1) * view.stride[0] : 0;
    runs.push_back({begin, begin + (last + elements_of_run(view)) * size_of(view.dtype), &tensor});
  }
  return runs;
}

std::vector<Footprints::Run> Footprints::experts() const {
  std::vector<Run> runs;
  for (const Tensor& tensor : tensors_) {
    const ConstTensorView& view = tensor.view;
    const auto* const base = static_cast<const std::byte*>(view.data);
    for (std::int64_t run = 0; run < runs_of(view); ++run) {
      const std::byte* const begin = base + (view.dims == 3 ? run * view.stride[0] : 0) * size_of(view.dtype);
      runs.push_back({begin, begin + elements_of_run(view) * size_of(view.dtype), &tensor});
    }
  }
  return runs;
}

std::pair<const Footprints::Tensor*, const Footprints::Tensor*> Footprints::clash(std::vector<Run>& runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tie(a.begin, a.tensor) < std::tie(b.begin, b.tensor);
  });
  const Run* furthest = nullptr;          // of the runs so far, the one that ends last
  const Run* furthest_written = nullptr;  // of those that are written
  for (const Run& run : runs) {
    const bool written = run.tensor->written;
    const Run* const before = written ? furthest : furthest_written;
    if (before != nullptr && run.begin < before->end) return {before->tensor, run.tensor};
    if (furthest == nullptr || run.end > furthest->end) furthest = &run;
    if (written && (furthest_written == nullptr || run.end > furthest_written->end)) furthest_written = &run;
  }
  return {};
}

// Looks at experts one by one only where whole tensors are interleaved: there may be hundreds of them.
void Footprints::check() const {
  std::vector<Run> runs = whole_tensors();
  if (clash(runs).first == nullptr) return;
  runs = experts();
  const auto [before, after] = clash(runs);
  if (before == nullptr) return;
  const Tensor& output = after->written ? *after : *before;
  const Tensor& other = after->written ? *before : *after;
  refuse("{} overlaps {} in memory; an output must share no memory with another tensor of the call",
         output.name.text(), other.name.text());
}

}  // namespace mok::api
