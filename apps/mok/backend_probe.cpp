// SPDX-License-Identifier: Apache-2.0
#include "mok/backend_probe.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mok/layer_run.h"
#include "mok/layer_setup.h"
#include "reference/bound.h"
#include "reference/random_problem.h"

namespace mok::tool {

namespace {

std::string run_small_layer() {
  try {
    reference::ProblemOptions options;
    options.tokens_per_rank = {5, 4};
    options.shared_intermediate = 64;
    const reference::Problem problem = reference::random_problem(options);
    Config config = safe_config({}, 1);
    config.arrival_deadline_seconds = config.progress_deadline_seconds = 20;
    const auto reports = reference::compare_all(problem, evaluate(problem, reference::Rounding::none),
                                                evaluate(problem, reference::Rounding::section2),
                                                run_layer(problem, config, false));
    return reference::all_pass(reports)
               ? "yes: a small forward and backward just agreed with the float64 reference"
               : "no: a small forward and backward gave wrong results (see mok check)";
  } catch (const std::exception& error) {
    return fmt::format("no: {}", error.what());
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 512> chunk{};
  for (ssize_t got = read(descriptor, chunk.data(), chunk.size()); got > 0;
       got = read(descriptor, chunk.data(), chunk.size())) {
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::string probe_cpu_backend() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "unknown: no pipe could be made to ask a second process";
  // What is buffered now must not be written by both processes.
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return "unknown: no second process could be started";
  if (child == 0) {
    const std::string answer = run_small_layer();
    const bool whole = write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size());
    _exit(whole ? 0 : 1);
  }
  close(ends[1]);
  std::string answer = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGILL) {
    return "no: its kernels were compiled for instructions that this processor does not have";
  }
  if (WIFSIGNALED(status)) return fmt::format("no: a small layer was ended by signal {}", WTERMSIG(status));
  return answer;
}

}  // namespace mok::tool
