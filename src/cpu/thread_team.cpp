// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_team.h"

#include <atomic>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include <mok/error.h>

namespace mok::cpu {

void run_together(const std::vector<std::function<void()>>& bodies) {
  enum Gate : int { closed, open, cancelled };
  std::atomic<int> gate = closed;
  const auto leave_gate = [&gate](Gate state) {
    gate = state;
    gate.notify_all();
  };
  std::vector<std::jthread> threads;  // joined before the gate goes
  threads.reserve(bodies.size());
  try {
    for (const std::function<void()>& body : bodies) {
      threads.emplace_back([&gate, &body] {
        gate.wait(closed);
        if (gate == open) body();
      });
    }
  } catch (const std::system_error& error) {
    leave_gate(cancelled);
    throw Error(
        fmt::format("the system gave {} of {} worker threads ({}); lower cpu.num_compute_workers, the number "
                    "of communication SMs, or the number of virtual ranks",
                    threads.size(), bodies.size(), error.what()));
  }
  leave_gate(open);
}

}  // namespace mok::cpu
