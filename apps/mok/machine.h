// SPDX-License-Identifier: Apache-2.0
// What this machine has, as far as it can be seen without linking any driver.
#pragma once

#include <string>
#include <vector>

namespace mok::tool {

struct Machine {
  std::string cpu_model;  ///< empty = unknown
  int cores = 0;          ///< that this process may use
  bool avx2_fma = false;
  bool avx512 = false;      ///< F, BW, DQ and VL
  double memory_bytes = 0;  ///< 0 = unknown
  double free_bytes = 0;    ///< as available_memory()
};
Machine inspect_machine();

/// Bytes that can be had without swapping, a control group's limit taken into account; infinity when unknown.
double available_memory();

struct Gpus {
  std::string driver;              ///< the kernel module's own words; empty = not loaded
  std::vector<std::string> cards;  ///< one line per card
};
Gpus inspect_gpus();

}  // namespace mok::tool
