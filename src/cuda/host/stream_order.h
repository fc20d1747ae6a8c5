// SPDX-License-Identifier: Apache-2.0
// Passes of a workspace run one after the other, on whichever streams they are enqueued.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace mok::cuda {

/// begin(), enqueue, end(): what lies between runs behind everything that lay between earlier ones. Passes of
/// a captured graph are ordered among themselves; a replay is ordered by the stream that it is launched on.
class StreamOrder {
 public:
  StreamOrder();  ///< \throws mok::Error
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  ~StreamOrder();  ///< waits

  /// \throws mok::Error
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);

  /// Waits for what was enqueued, and for the whole device once a pass was captured: nobody knows where its
  /// graph is launched. \throws InvalidArgument where that cannot be done during a capture; mok::Error
  void synchronize();

 private:
  /// The last pass, eager or captured.
  struct Last {
    cudaEvent_t event = nullptr;
    cudaStream_t stream = nullptr;
    bool exists = false;
  };
  static void wait_for(const Last& last, cudaStream_t stream);

  Last eager_;
  Last captured_;
  std::uint64_t capture_ = 0;  ///< that captured_ belongs to
};

}  // namespace mok::cuda
