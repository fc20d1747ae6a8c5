// SPDX-License-Identifier: Apache-2.0
// Seeded shuffling of worker timing: a hunt for ordering faults that a quiet machine would hide.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

namespace mok::cpu {

class Jitter {
 public:
  /// A seed of 0 turns it off; `stream` tells workers apart.
  Jitter(std::uint64_t seed, std::uint64_t stream)
      : on_(seed != 0),
        random_(static_cast<std::uint32_t>(((seed << 20) + stream) * 0x9E3779B97F4A7C15u >> 32) | 1u) {}

  /// Nothing, a yield, or a sleep of up to 300 microseconds.
  void pause() {
    if (!on_) return;
    const std::uint64_t draw = random_();
    if (draw % 4 == 1) std::this_thread::yield();
    if (draw % 4 >= 2) std::this_thread::sleep_for(std::chrono::microseconds(draw / 4 % 300));
  }

 private:
  bool on_;
  std::minstd_rand random_;
};

}  // namespace mok::cpu
