// SPDX-License-Identifier: Apache-2.0
#include "mok/check_report.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mok/layer_run.h"
#include "mok/layer_setup.h"
#include "mok/tool_error.h"
#include "reference/random_problem.h"

namespace mok::tool {
namespace {

/// The comparison of a small run, after `fault` has been at the library's result.
template <class Fault>
std::vector<reference::TensorReport> compare_with(const Fault& fault) {
  reference::ProblemOptions options;
  options.tokens_per_rank = {20, 10};
  const reference::Problem problem = reference::random_problem(options);
  reference::Candidate candidate = run_layer(problem, safe_config({}, 1), false);
  fault(candidate);
  return reference::compare_all(problem, reference::evaluate(problem, reference::Rounding::none),
                                reference::evaluate(problem, reference::Rounding::section2), candidate);
}

TEST(CheckReport, PassesTheLibrary) {
  const auto reports = compare_with([](reference::Candidate&) {});
  EXPECT_NO_THROW(require_all_pass(reports));
  const std::string table = check_table(reports, false);
  EXPECT_EQ(table.find("FAIL"), std::string::npos) << table;
  EXPECT_EQ(table.find("d_shared"), std::string::npos) << table;
  EXPECT_NE(check_table(reports, true).find("d_shared"), std::string::npos);
}

TEST(CheckReport, FailsAnElementThatWasLeftOut) {
  const auto reports = compare_with([](reference::Candidate& candidate) {
    candidate.ranks[1].d_x[5] = std::numeric_limits<float>::quiet_NaN();
  });
  const std::string table = check_table(reports, false);
  EXPECT_NE(table.find("FAIL, 1 elements are not finite"), std::string::npos) << table;
  try {
    require_all_pass(reports);
    FAIL() << "it should throw";
  } catch (const DataError& error) {
    EXPECT_EQ(error.exit_status(), kExitFailed);
    EXPECT_TRUE(std::string(error.what()).ends_with("allow in d_x.")) << error.what();
  }
}

TEST(CheckReport, FailsAGradientThatIsOffByAFactor) {
  const auto reports = compare_with([](reference::Candidate& candidate) {
    for (float& value : candidate.ranks[0].d_router_weights) value *= 1.05F;
  });
  EXPECT_THROW(require_all_pass(reports), DataError);
  EXPECT_NE(check_table(reports, false).find("FAIL"), std::string::npos);
}

}  // namespace
}  // namespace mok::tool
