// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/tensor_maps.h"

#include <array>
#include <cstdint>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <mok/error.h>

#include "cuda/host/cuda_check.h"
#include "cuda/pipeline/tiles.h"

namespace mok::cuda {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// Asked for at run time: the library does not link to the driver's.
EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    constexpr unsigned kVersion = 12000;  // the first that has it
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kVersion, cudaEnableDefault,
                                           &result),
          "cudaGetDriverEntryPointByVersion");
    if (result != cudaDriverEntryPointSuccess) {
      throw Error("the driver has no cuTensorMapEncodeTiled; MoK needs a driver of CUDA 12 or newer");
    }
    return reinterpret_cast<EncodeTiled>(found);
  }();
  return function;
}

/// bf16 [outer, rows, cols], dense within a row and from row to row, as boxes of box_rows rows of 128 bytes
/// with the swizzle that wgmma reads.
struct Matrix {
  const bfloat16* data = nullptr;
  std::int64_t cols = 0;
  std::int64_t rows = 0;
  std::int64_t outer = 0;         ///< 0 = two dimensions
  std::int64_t outer_stride = 0;  ///< elements
  int box_rows = 0;
};

CUtensorMap encode(const Matrix& matrix) {
  CUtensorMap map{};
  if (matrix.data == nullptr || matrix.rows == 0 || matrix.cols == 0) return map;
  const bool has_outer = matrix.outer > 0;
  const std::int64_t outer_stride = matrix.outer > 1 ? matrix.outer_stride : matrix.rows * matrix.cols;
  const std::array<cuuint64_t, 3> sizes{static_cast<cuuint64_t>(matrix.cols),
                                        static_cast<cuuint64_t>(matrix.rows),
                                        static_cast<cuuint64_t>(matrix.outer)};
  const std::array<cuuint64_t, 2> strides{static_cast<cuuint64_t>(matrix.cols) * sizeof(bfloat16),
                                          static_cast<cuuint64_t>(outer_stride) * sizeof(bfloat16)};
  const std::array<cuuint32_t, 3> box{kTileK, static_cast<cuuint32_t>(matrix.box_rows), 1};
  const std::array<cuuint32_t, 3> steps{1, 1, 1};
  const CUresult result = encode_tiled()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, has_outer ? 3 : 2, const_cast<bfloat16*>(matrix.data),
      sizes.data(), strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(fmt::format(
        "cuTensorMapEncodeTiled failed with {} for a bf16 matrix at {} of {} x {} x {}, {} elements "
        "from one to the next",
        static_cast<int>(result), fmt::ptr(static_cast<const void*>(matrix.data)), matrix.outer, matrix.rows,
        matrix.cols, outer_stride));
  }
  return map;
}

/// \param experts of the weights; \param rows of x and hidden
ExpertMaps encode_expert(const ops::Weights& weights, std::int64_t experts, const bfloat16* x,
                         const bfloat16* hidden_rows, std::int64_t rows, std::int64_t hidden,
                         std::int64_t intermediate) {
  ExpertMaps maps{};
  maps.x = encode({x, hidden, rows, 0, 0, kTileRows});
  maps.hidden = encode({hidden_rows, intermediate, rows, 0, 0, kTileRows});
  const auto weight = [&](const ops::WeightView& view, std::int64_t cols, std::int64_t out_rows,
                          int box_rows) {
    return encode({view.data, cols, out_rows, experts, view.expert_stride, box_rows});
  };
  maps.gate = weight(weights.gate, hidden, intermediate, kTileCols / 2);
  maps.up = weight(weights.up, hidden, intermediate, kTileCols / 2);
  maps.down = weight(weights.down, intermediate, hidden, kTileCols);
  return maps;
}

}  // namespace

void encode_maps(RankPlan& plan, std::int64_t num_tokens) {
  const ops::RankView& view = plan.view;
  const program::Dims& dims = view.dims;
  plan.routed = encode_expert(view.routed, dims.local_experts(), view.saved.x, view.hidden, dims.ring_rows(),
                              dims.hidden, dims.intermediate);
  plan.shared = {};
  if (dims.shared_intermediate == 0) return;
  plan.shared = encode_expert(view.shared, 1, view.x, view.shared_hidden, num_tokens, dims.hidden,
                              dims.shared_intermediate);
}

}  // namespace mok::cuda
