// SPDX-License-Identifier: Apache-2.0
#include "mok/language_model.h"

#include "mok/parallel.h"

namespace mok::tool {

template <class Scalar>
LanguageModel<Scalar>::LanguageModel(const ModelSizes& sizes, ExpertLayer<Scalar>* layer, std::uint64_t seed,
                                     int threads)
    : sizes_(sizes),
      layer_(layer),
      threads_(threads),
      embedding_(sizes.context, sizes.hidden, seed),
      head_(sizes.hidden, seed) {
  if (layer_ != nullptr) router_.emplace(sizes.experts, sizes.topk, sizes.hidden, seed);
}

template <class Scalar>
double LanguageModel<Scalar>::forward(const Batch& batch) {
  embedding_.forward(batch.contexts, x_, threads_);
  if (layer_ == nullptr) return head_.forward(x_, batch.targets, threads_);
  router_->forward(x_, threads_);
  layer_->forward(x_, router_->routing(), h_);
  parallel_ranges(threads_, x_.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
    h_.middleRows(begin, count) += x_.middleRows(begin, count);
  });
  return head_.forward(h_, batch.targets, threads_);
}

template <class Scalar>
void LanguageModel<Scalar>::backward(const Batch& batch) {
  if (layer_ == nullptr) {
    head_.backward(x_, batch.targets, d_x_, threads_);
  } else {
    head_.backward(h_, batch.targets, d_h_, threads_);
    layer_->backward(x_, router_->routing(), d_h_, d_x_, d_router_weights_);
    parallel_ranges(threads_, x_.rows(), kBlockRows, [&](Eigen::Index begin, Eigen::Index count) {
      d_x_.middleRows(begin, count) += d_h_.middleRows(begin, count);
    });
    router_->backward(x_, d_router_weights_, sizes_.balance_factor, d_x_, threads_);
  }
  embedding_.backward(batch.contexts, d_x_);
}

template <class Scalar>
std::vector<Parameter<Scalar>*> LanguageModel<Scalar>::parameters() {
  std::vector<Parameter<Scalar>*> all = {&embedding_.table(), &head_.weight(), &head_.bias()};
  if (layer_ != nullptr) {
    all.push_back(&router_->weight());
    for (Parameter<Scalar>* parameter : layer_->parameters()) all.push_back(parameter);
  }
  return all;
}

template class LanguageModel<float>;
template class LanguageModel<double>;

}  // namespace mok::tool
