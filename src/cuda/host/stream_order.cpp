// SPDX-License-Identifier: Apache-2.0
#include "cuda/host/stream_order.h"

#include <mok/error.h>

#include "cuda/host/cuda_check.h"
#include "cuda/host/memory.h"

namespace mok::cuda {

StreamOrder::StreamOrder() {
  check(cudaEventCreateWithFlags(&eager_.event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&captured_.event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

StreamOrder::~StreamOrder() {
  if (eager_.exists) static_cast<void>(cudaEventSynchronize(eager_.event));
  static_cast<void>(cudaEventDestroy(eager_.event));
  static_cast<void>(cudaEventDestroy(captured_.event));
  forget_last_error();
}

void StreamOrder::wait_for(const Last& last, cudaStream_t stream) {
  if (!last.exists || last.stream == stream) return;
  check(cudaStreamWaitEvent(stream, last.event, 0), "cudaStreamWaitEvent");
}

void StreamOrder::begin(cudaStream_t stream) {
  const std::uint64_t capture = capture_of(stream);
  if (capture == 0) return wait_for(eager_, stream);
  // An event from outside of a capture means nothing inside, nor one of another capture.
  if (capture != capture_) captured_.exists = false;
  capture_ = capture;
  wait_for(captured_, stream);
}

// Recorded behind every pass, not only once another stream comes: the stream may be gone by then.
void StreamOrder::end(cudaStream_t stream) {
  Last& last = capture_of(stream) == 0 ? eager_ : captured_;
  check(cudaEventRecord(last.event, stream), "cudaEventRecord");
  last.stream = stream;
  last.exists = true;
}

void StreamOrder::synchronize() {
  if (capture_ == 0 && !eager_.exists) return;
  const cudaError_t result = capture_ != 0 ? cudaDeviceSynchronize() : cudaEventSynchronize(eager_.event);
  if (result == cudaErrorStreamCaptureUnsupported || result == cudaErrorCapturedEvent) {
    forget_last_error();
    throw InvalidArgument(
        "the outcome of passes was asked for while a stream is being captured; ask when the capture has "
        "ended");
  }
  check(result, "waiting for the passes of a workspace");
}

}  // namespace mok::cuda
