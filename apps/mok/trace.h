// SPDX-License-Identifier: Apache-2.0
// Routing traces: where the tokens of chosen training steps went, for tests and benchmarks to replay.
// The format is in docs/trace-format.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mok::tool {

/// The routes of one rank's tokens.
struct RankRouting {
  std::int64_t tokens = 0;                 ///< T, may be 0
  std::vector<std::int32_t> topk_experts;  ///< [T, K]; -1 = dropped route
  std::vector<float> router_weights;       ///< [T, K], finite
};

struct RoutingStep {
  std::int64_t step = 0;
  std::vector<RankRouting> ranks;  ///< R of them
};

/// What all steps of a trace share.
struct TraceSizes {
  int ranks = 0;                  ///< R
  int experts = 0;                ///< E, a multiple of R
  int topk = 0;                   ///< K, at most E
  std::int64_t hidden = 0;        ///< H of the layer that was traced, for information; 0 = not given
  std::int64_t intermediate = 0;  ///< I, likewise
};

struct RoutingTrace {
  TraceSizes sizes;
  std::vector<RoutingStep> steps;  ///< in ascending order of `step`
};

/// A trace that cannot be used. The sentence names the file, the line and what is wrong.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Everything in the result has been checked: sizes agree, ids are in range, weights are finite, no line is
/// missing. \throws TraceError
RoutingTrace read_trace(const std::filesystem::path& path);
/// \param name stands for the file in errors.
RoutingTrace read_trace(std::istream& stream, const std::string& name);

/// Writes line by line; a trace without finish() is noticed as cut short by the reader.
class TraceWriter {
 public:
  /// Writes the header. The stream must outlive this.
  TraceWriter(std::ostream& stream, const TraceSizes& sizes);
  void add(const RoutingStep& step);
  void finish();

 private:
  std::ostream& stream_;
  std::int64_t steps_ = 0;
};

}  // namespace mok::tool
