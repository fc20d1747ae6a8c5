// SPDX-License-Identifier: Apache-2.0
// `mok doctor`: what this machine has, which backends can run, and what a layer will allocate.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mok/backend.h>
#include <mok/memory.h>

#include "mok/backend_probe.h"
#include "mok/cli.h"
#include "mok/human.h"
#include "mok/layer_setup.h"
#include "mok/machine.h"
#include "mok/tool_error.h"

namespace mok::tool {

namespace {

void print_machine(const Machine& machine, const Gpus& gpus) {
  const auto yes_no = [](bool yes) { return yes ? "yes" : "no"; };
  fmt::print("Machine\n");
  fmt::print("  cpu      {}, {} cores for this process\n",
             machine.cpu_model.empty() ? "of unknown model" : machine.cpu_model, machine.cores);
  fmt::print("  vectors  AVX2 and FMA: {}, AVX-512 (F, BW, DQ, VL): {}\n", yes_no(machine.avx2_fma),
             yes_no(machine.avx512));
  fmt::print("  memory   {}, {} free\n", human_bytes(machine.memory_bytes), human_bytes(machine.free_bytes));
  if (gpus.cards.empty()) fmt::print("  gpu      none seen\n");
  for (const std::string& card : gpus.cards) fmt::print("  gpu      {}\n", card);
  fmt::print("  driver   {}\n", gpus.driver.empty() ? "no NVIDIA kernel module is loaded" : gpus.driver);
}

void print_group(const char* title, const std::vector<BufferBytes>& buffers, std::int64_t total,
                 std::int64_t ranks) {
  fmt::print("  {}\n", title);
  const auto line = [&](const std::string& name, std::int64_t bytes) {
    const auto all = static_cast<double>(bytes) * static_cast<double>(ranks);
    fmt::print("    {:<46} {:>18} {:>12} {:>12}\n", name, grouped(bytes),
               human_bytes(static_cast<double>(bytes)), human_bytes(all));
  };
  for (const BufferBytes& buffer : buffers) line(buffer.name, buffer.bytes);
  line("sum", total);
}

void print_memory(const LayerSizes& shape, const Config& config) {
  const MemoryReport report = memory_of(shape, config);
  fmt::print(
      "\nMemory of a layer: ranks {}, tokens {}, hidden {}, intermediate {}, shared {}, experts {}, topk "
      "{}\n",
      shape.ranks, shape.tokens, shape.hidden, shape.intermediate, shape.shared_intermediate, shape.experts,
      shape.topk);
  fmt::print("    {:<46} {:>18} {:>12} {:>12}\n", "", "bytes per rank", "per rank", "all ranks");
  print_group("workspace, reachable by all ranks", report.symmetric, report.symmetric_bytes, shape.ranks);
  print_group("workspace, of one kind of layer", report.local, report.local_bytes, shape.ranks);
  print_group("each schedule that is alive", report.schedule, report.schedule_bytes, shape.ranks);
  print_group("each forward context that is alive", report.context, report.context_bytes, shape.ranks);
  const std::int64_t all =
      report.symmetric_bytes + report.local_bytes + report.schedule_bytes + report.context_bytes;
  print_group("one layer with one schedule and one context", {}, all, shape.ranks);
}

/// What the library says of the GPU; asking starts the driver where there is one.
std::string cuda_answer() {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "cuda") return (backend.available ? "yes: " : "no: ") + backend.reason;
  }
  return "no: the library does not know it";
}

int run_doctor(const LayerSizes& shape) {
  check_shape(shape);
  const Machine machine = inspect_machine();
  print_machine(machine, inspect_gpus());
  fmt::print("\nBackends\n  cpu      {}\n", probe_cpu_backend());
  // After the probe: a driver does not survive the second process that the probe starts.
  fmt::print("  cuda     {}\n", cuda_answer());
  print_memory(shape, default_config(shape));
  return kExitOk;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_status) {
  const auto shape = std::make_shared<LayerSizes>();
  shape->tokens = 4096;
  shape->hidden = 2048;
  shape->intermediate = 1024;
  shape->experts = 64;
  shape->topk = 8;
  shape->ranks = 8;
  CLI::App* command = app.add_subcommand(
      "doctor", "Show what this machine has, what can run, and what a layer will allocate");
  add_routing_options(*command, *shape);
  add_width_options(*command, *shape);
  add_layer_options(*command, *shape);
  command->footer("The bytes are told before anything is allocated: nothing of the layer's size is made.");
  command->callback([shape, &exit_status] { exit_status = run_doctor(*shape); });
}

}  // namespace mok::tool
