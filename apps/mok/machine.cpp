// SPDX-License-Identifier: Apache-2.0
#include "mok/machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

namespace mok::tool {
namespace fs = std::filesystem;

namespace {

/// The text after ':' on the first line that begins with `key`.
std::string field(const fs::path& path, const std::string& key) {
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t text = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && text != std::string::npos) return line.substr(text);
  }
  return {};
}

std::optional<double> number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  return value;
}

std::optional<double> meminfo(const std::string& key) {
  const std::optional<double> kibibytes = number(field("/proc/meminfo", key));
  if (!kibibytes) return std::nullopt;
  return *kibibytes * 1024;
}

std::optional<double> number_in(const fs::path& path) {
  std::ifstream stream(path);
  std::string text;
  std::getline(stream, text);
  return number(text);
}

/// What the control group of a container leaves; "max" is no number, hence no limit.
double control_group_memory() {
  const std::optional<double> limit = number_in("/sys/fs/cgroup/memory.max");
  const std::optional<double> used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit) return std::numeric_limits<double>::infinity();
  return std::max(0.0, *limit - used.value_or(0));
}

/// Lines of a command's output; none when it cannot be run or fails.
std::vector<std::string> lines_of(const char* command) {
  std::vector<std::string> lines;
  std::FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return lines;
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
    } else {
      lines.push_back(line);
      line.clear();
    }
  }
  if (pclose(pipe) != 0) lines.clear();
  return lines;
}

}  // namespace

double available_memory() {
  const double machine = meminfo("MemAvailable:").value_or(std::numeric_limits<double>::infinity());
  return std::min(machine, control_group_memory());
}

Machine inspect_machine() {
  Machine machine;
  machine.cpu_model = field("/proc/cpuinfo", "model name");
  machine.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
#if defined(__x86_64__)
  // The built-in also asks whether the operating system saves the registers.
  machine.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  machine.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  machine.memory_bytes = meminfo("MemTotal:").value_or(0);
  machine.free_bytes = available_memory();
  return machine;
}

Gpus inspect_gpus() {
  Gpus gpus;
  gpus.driver = field("/proc/driver/nvidia/version", "NVRM version");
  // A driver that hangs must not hang this.
  gpus.cards = lines_of(
      "timeout 10 nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version --format=csv,noheader "
      "2>/dev/null");
  if (!gpus.cards.empty()) return gpus;
  std::error_code failure;
  for (const fs::directory_entry& card : fs::directory_iterator("/proc/driver/nvidia/gpus", failure)) {
    gpus.cards.push_back(field(card.path() / "information", "Model") + ", " +
                         card.path().filename().string());
  }
  return gpus;
}

}  // namespace mok::tool
