// SPDX-License-Identifier: Apache-2.0
// A small layer on two ranks, and what the library says when one of its arguments is spoiled.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <mok/mok.h>

#include "reference/random_problem.h"
#include "support/layer_run.h"

namespace mok::testing {

/// The sentence of the InvalidArgument that a call throws.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

/// R = 2, T = 5 and 3, H = 64, I = 128, Is = 192, E = 4 (El = 2), K = 2: no two sizes that could be mixed up
/// agree.
inline reference::Problem small_problem() {
  reference::ProblemOptions options;
  options.hidden = 64;
  options.intermediate = 128;
  options.shared_intermediate = 192;
  options.experts = 4;
  options.topk = 2;
  options.tokens_per_rank = {5, 3};
  return reference::random_problem(options);
}

/// Calls that spoil one argument must be refused, leave every output as it was, and not disturb the next good
/// call.
class Refusals {
 public:
  explicit Refusals(const RunOptions& options = {}, reference::Problem problem = small_problem())
      : problem_(std::move(problem)),
        harness_(problem_, options),
        workspace_(options.config, harness_.workspace_options()),
        schedule_(harness_.schedule(workspace_)),
        context_(harness_.forward(workspace_, schedule_)) {
    harness_.backward(workspace_, schedule_, context_);
    good_ = harness_.results();
  }

  Workspace& workspace() { return workspace_; }
  const Schedule& schedule() const { return schedule_; }
  const ForwardContext& context() const { return context_; }
  LayerHarness& harness() { return harness_; }
  const reference::Problem& problem() const { return problem_; }

  /// `spoil` gets the inputs of forward, and may change the options.
  template <class Spoil>
  void expect_forward(const std::string& sentence, const Spoil& spoil) {
    std::vector<ForwardInput> inputs = harness_.forward_inputs();
    PassOptions options = harness_.pass_options();
    expect_refused(sentence, [&] {
      if constexpr (std::is_invocable_v<Spoil, std::vector<ForwardInput>&, PassOptions&>) {
        spoil(inputs, options);
      } else {
        spoil(inputs);
      }
      static_cast<void>(mok::forward(workspace_, schedule_, inputs, options));
    });
  }

  /// `spoil` gets the inputs of backward, and may change the options.
  template <class Spoil>
  void expect_backward(const std::string& sentence, const Spoil& spoil) {
    std::vector<BackwardInput> inputs = harness_.backward_inputs();
    PassOptions options = harness_.pass_options();
    expect_refused(sentence, [&] {
      if constexpr (std::is_invocable_v<Spoil, std::vector<BackwardInput>&, PassOptions&>) {
        spoil(inputs, options);
      } else {
        spoil(inputs);
      }
      mok::backward(workspace_, schedule_, context_, inputs, options);
    });
  }

  /// Any call on the workspace.
  template <class Call>
  void expect_refused(const std::string& sentence, const Call& call) {
    const LayerRun before = harness_.results();
    EXPECT_EQ(refusal_of(call), sentence);
    EXPECT_EQ(differences(before, harness_.results(), true), "") << "written although refused: " << sentence;
    EXPECT_EQ(workspace_.status().kind, StatusKind::ok);
    expect_good_call();
  }

 private:
  void expect_good_call() {
    const ForwardContext context = harness_.forward(workspace_, schedule_);
    harness_.backward(workspace_, schedule_, context);
    EXPECT_EQ(differences(good_, harness_.results(), true), "") << "the next good call gave other bits";
  }

  reference::Problem problem_;
  LayerHarness harness_;
  Workspace workspace_;
  Schedule schedule_;
  ForwardContext context_;
  LayerRun good_;
};

}  // namespace mok::testing
