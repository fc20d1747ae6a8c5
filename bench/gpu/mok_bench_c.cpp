// SPDX-License-Identifier: Apache-2.0
// The library behind C functions, for bench/gpu/library.py: one layer, pointers that somebody else owns, a
// stream. A function returns null when it did its work, else a sentence that stays valid until the thread's
// next call.
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mok/mok.h>

extern "C" {

/// The layer and its tunables; 0 = the library's choice where a tunable allows it.
struct MokBenchSizes {
  std::int64_t max_tokens;  ///< of a rank
  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t minibatch;   ///< 0 = default
  std::int64_t macrobatch;  ///< 0 = default
  std::int32_t experts;     ///< over all ranks
  std::int32_t topk;
  std::int32_t ranks;
  std::int32_t comm_sms;  ///< 0 = chosen for the device
  std::int32_t device;
};

/// One rank's tensors. gate and up are the two halves of one [El, 2I, H] tensor, as the peer layer keeps
/// them.
struct MokBenchRank {
  std::int64_t tokens;
  const std::int64_t* topk_experts;  ///< [T,K]
  const float* router_weights;       ///< [T,K]
  const mok::bfloat16* x;            ///< [T,H]
  const mok::bfloat16* gate_up;      ///< [El,2I,H]
  const mok::bfloat16* down;         ///< [El,H,I]
  mok::bfloat16* out;                ///< [T,H]
};

}  // extern "C"

namespace {

using mok::ConstTensorView;
using mok::TensorView;

class Layer {
 public:
  explicit Layer(const MokBenchSizes& sizes)
      : sizes_(sizes),
        device_{mok::DeviceType::cuda, sizes.device},
        workspace_(config(sizes), options(sizes)) {
    workspace_.reserve({sizes.experts, sizes.intermediate, 0});
  }

  void set_ranks(const MokBenchRank* ranks, std::int32_t count) {
    if (count != sizes_.ranks) {
      throw std::invalid_argument(
          fmt::format("count is {}; the layer was made for {} ranks", count, sizes_.ranks));
    }
    ids_.clear();
    inputs_.clear();
    for (std::int32_t r = 0; r < count; ++r) add_rank(ranks[r]);
    schedule_.reset();
  }

  void build_schedule(void* stream) {
    // The old tables go first, so that a step needs the memory of one.
    schedule_.reset();
    schedule_ = mok::build_schedule(workspace_, ids_, sizes_.experts, {stream});
  }

  void forward(void* stream, bool multiply_only) {
    if (!schedule_) throw std::invalid_argument("there is no schedule; build one before forward");
    context_.reset();
    mok::PassOptions pass;
    pass.stream = stream;
    pass.multiply_only = multiply_only;
    context_ = mok::forward(workspace_, *schedule_, inputs_, pass);
  }

  void check() const { workspace_.check(); }

  /// Of the workspace and the context that is alive.
  [[nodiscard]] std::int64_t nbytes() const {
    return workspace_.nbytes() + (context_ ? context_->nbytes() : 0);
  }

 private:
  static mok::Config config(const MokBenchSizes& sizes) {
    mok::Config config;
    if (sizes.comm_sms != 0) config.fwd_num_comm_sms = sizes.comm_sms;
    if (sizes.minibatch != 0) config.minibatch_size = sizes.minibatch;
    if (sizes.macrobatch != 0) config.macrobatch_size = sizes.macrobatch;
    return config;
  }

  static mok::WorkspaceOptions options(const MokBenchSizes& sizes) {
    return {sizes.ranks, sizes.max_tokens, sizes.hidden, sizes.topk, {mok::DeviceType::cuda, sizes.device}};
  }

  void add_rank(const MokBenchRank& rank) {
    const std::int64_t local = sizes_.experts / sizes_.ranks;
    const std::int64_t h = sizes_.hidden;
    const std::int64_t i = sizes_.intermediate;
    const std::int64_t k = sizes_.topk;
    const auto half = [&](const mok::bfloat16* begin) {
      return ConstTensorView(begin, {local, i, h}, device_).with_expert_stride(2 * i * h);
    };
    mok::ForwardInput input;
    input.x = ConstTensorView(rank.x, {rank.tokens, h}, device_);
    input.router_weights = ConstTensorView(rank.router_weights, {rank.tokens, k}, device_);
    input.routed = {half(rank.gate_up), half(rank.gate_up + i * h),
                    ConstTensorView(rank.down, {local, h, i}, device_)};
    input.out = TensorView(rank.out, {rank.tokens, h}, device_);
    inputs_.push_back(input);
    ids_.emplace_back(rank.topk_experts, std::initializer_list<std::int64_t>{rank.tokens, k}, device_);
  }

  MokBenchSizes sizes_;
  mok::Device device_;
  mok::Workspace workspace_;
  std::vector<ConstTensorView> ids_;
  std::vector<mok::ForwardInput> inputs_;
  std::optional<mok::Schedule> schedule_;
  std::optional<mok::ForwardContext> context_;
};

/// Null, or what `work` threw as a sentence: no exception may leave a C function.
template <class Work>
const char* sentence_of(const Work& work) {
  thread_local std::string sentence;
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    sentence = error.what();
  } catch (...) {
    sentence = "an exception of an unknown kind";
  }
  return sentence.c_str();
}

}  // namespace

#define MOK_BENCH_API __attribute__((visibility("default")))

extern "C" {

MOK_BENCH_API const char* mok_bench_create(const MokBenchSizes* sizes, void** layer) {
  return sentence_of([&] { *layer = new Layer(*sizes); });
}

/// The layer must have finished its work on the GPU, and so must the streams that it was used on still be
/// there.
MOK_BENCH_API const char* mok_bench_destroy(void* layer) {
  return sentence_of([&] { delete static_cast<Layer*>(layer); });
}

MOK_BENCH_API const char* mok_bench_set_ranks(void* layer, const MokBenchRank* ranks, std::int32_t count) {
  return sentence_of([&] { static_cast<Layer*>(layer)->set_ranks(ranks, count); });
}

MOK_BENCH_API const char* mok_bench_schedule(void* layer, void* stream) {
  return sentence_of([&] { static_cast<Layer*>(layer)->build_schedule(stream); });
}

MOK_BENCH_API const char* mok_bench_forward(void* layer, void* stream, std::int32_t multiply_only) {
  return sentence_of([&] { static_cast<Layer*>(layer)->forward(stream, multiply_only != 0); });
}

/// Waits for the GPU.
MOK_BENCH_API const char* mok_bench_check(void* layer) {
  return sentence_of([&] { static_cast<Layer*>(layer)->check(); });
}

MOK_BENCH_API const char* mok_bench_nbytes(void* layer, std::int64_t* bytes) {
  return sentence_of([&] { *bytes = static_cast<Layer*>(layer)->nbytes(); });
}

}  // extern "C"
