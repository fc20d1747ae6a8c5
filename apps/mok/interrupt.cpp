// SPDX-License-Identifier: Apache-2.0
#include "mok/interrupt.h"

#include <csignal>

#include "mok/tool_error.h"

namespace mok::tool {

namespace {
volatile std::sig_atomic_t interrupted = 0;

void on_signal(int signal) {
  interrupted = interrupted + 1;
  // Not at the second: programs such as timeout send a signal to the process and to its group.
  if (interrupted == 2) std::signal(signal, SIG_DFL);
}
}  // namespace

void handle_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGHUP, on_signal);
  // These become errors of the write that caused them, which are told in a sentence.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void throw_if_interrupted() {
  if (interrupted != 0) throw ToolError(kExitInterrupted, "Interrupted.");
}

}  // namespace mok::tool
