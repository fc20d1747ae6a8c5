// SPDX-License-Identifier: Apache-2.0
// `mok trace`: who did what when, in one forward.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <mok/layer.h>
#include <mok/timeline.h>
#include <mok/workspace.h>

#include "mok/atomic_file.h"
#include "mok/cli.h"
#include "mok/device.h"
#include "mok/interrupt.h"
#include "mok/layer_tensors.h"
#include "mok/timeline_json.h"
#include "mok/timeline_picture.h"
#include "mok/timeline_summary.h"
#include "mok/tool_error.h"

namespace mok::tool {

namespace {

constexpr std::int64_t kMaxCommSms = 256;
constexpr std::int64_t kMaxRepeats = 10'000;

struct TraceArguments {
  LayerSizes shape;
  std::string device;         ///< empty = what is there
  std::int64_t comm_sms = 0;  ///< 0 = the library's choice
  std::int64_t warmups = 2;
  std::int64_t repeats = 5;
  std::int64_t seed = 1;
  std::filesystem::path out, picture;
};

void add_options(CLI::App& command, TraceArguments& arguments) {
  arguments.shape.tokens = 1024;
  arguments.shape.hidden = 1024;
  arguments.shape.intermediate = 512;
  arguments.shape.experts = 16;
  arguments.shape.topk = 4;
  add_routing_options(command, arguments.shape);
  add_width_options(command, arguments.shape);
  add_layer_options(command, arguments.shape);
  add_device_option(command, arguments.device, "cuda where it can run, else cpu");
  add_whole_number(command, "--comm-sms", arguments.comm_sms,
                   "SMs that dispatch, over all ranks; on the CPU threads for each rank", 1, kMaxCommSms)
      ->option_text("N [the library's choice]");
  add_whole_number(command, "--warmups", arguments.warmups, "Forwards before the recorded ones", 0,
                   kMaxRepeats);
  add_whole_number(command, "--repeats", arguments.repeats,
                   "Forwards to record; the one of median duration is shown", 1, kMaxRepeats);
  add_whole_number(command, "--seed", arguments.seed, "Of the random data", 0, INT64_MAX);
  command.add_option("--out", arguments.out, "Write trace events for Perfetto or chrome://tracing (JSON)")
      ->option_text("FILE")
      ->check(file_name());
  command.add_option("--picture", arguments.picture, "Draw a line for each worker (SVG)")
      ->option_text("FILE")
      ->check(file_name());
}

/// A file that was asked for. It is opened before the work, so that work for nothing is not begun.
std::optional<AtomicFile> open_file(const std::filesystem::path& path) {
  return path.empty() ? std::nullopt : std::optional<AtomicFile>(std::in_place, path);
}

/// What the library allocates on a GPU is the GPU's: it says itself when that is too much.
void check_sizes(const LayerSizes& shape, const Config& config, const Device& device) {
  check_shape(shape);
  const double library = total_bytes(memory_of(shape, config, device), shape.ranks);
  const bool on_host = device.type == DeviceType::cpu;
  check_memory("Tracing these sizes", tensor_bytes(shape) + (on_host ? library : 0));
}

std::uint64_t duration_of(const std::vector<TimelineEvent>& events) {
  std::uint64_t end = 0;
  for (const TimelineEvent& event : events) end = std::max(end, event.end_ns);
  return events.empty() ? 0 : end - events.front().begin_ns;
}

/// Forwards of one layer, recorded one by one.
class TracedLayer {
 public:
  TracedLayer(const TraceArguments& arguments, const Config& config, const Device& device)
      : workspace_(config, workspace_options(arguments.shape, device)),
        tensors_(random_tensors(arguments.shape, static_cast<std::uint64_t>(arguments.seed), device)),
        schedule_(
            build_schedule(workspace_, tensors_.topk_experts(), static_cast<int>(arguments.shape.experts))) {
    workspace_.check();
  }

  void forward(Timeline* timeline) {
    throw_if_interrupted();
    PassOptions options;
    options.timeline = timeline;
    static_cast<void>(mok::forward(workspace_, schedule_, tensors_.forward_inputs(), options));
    workspace_.check();
  }

  /// Events of a forward, found out with a timeline that holds one.
  [[nodiscard]] std::int64_t count_events() {
    Timeline timeline(tensors_.device, 1);
    forward(&timeline);
    return timeline.dropped() + static_cast<std::int64_t>(timeline.events().size());
  }

 private:
  Workspace workspace_;  ///< before the tensors: it is what says that a device is not there
  LayerTensors tensors_;
  Schedule schedule_;
};

/// The recorded forwards, the fastest first.
std::vector<std::vector<TimelineEvent>> record(const TraceArguments& arguments, const Config& config,
                                               const Device& device) {
  TracedLayer layer(arguments, config, device);
  for (std::int64_t i = 0; i < arguments.warmups; ++i) layer.forward(nullptr);
  Timeline timeline(device, std::max<std::int64_t>(1, layer.count_events()));
  std::vector<std::vector<TimelineEvent>> recordings;
  for (std::int64_t i = 0; i < arguments.repeats; ++i) {
    timeline.clear();
    layer.forward(&timeline);
    if (timeline.dropped() > 0) {
      throw ToolError(kExitFailed, "Two forwards of the same layer had different numbers of events.");
    }
    recordings.push_back(timeline.events());
  }
  std::sort(recordings.begin(), recordings.end(),
            [](const auto& a, const auto& b) { return duration_of(a) < duration_of(b); });
  return recordings;
}

std::string title_of(const LayerSizes& shape) {
  return fmt::format(
      "MoK forward: ranks {}, tokens {} each, hidden {}, intermediate {}, shared {}, experts {}, topk {}",
      shape.ranks, shape.tokens, shape.hidden, shape.intermediate, shape.shared_intermediate, shape.experts,
      shape.topk);
}

int run_trace(const TraceArguments& arguments) {
  handle_interrupts();  // before there is a temporary file to clean up
  Config config = safe_config(arguments.shape, 0);
  if (arguments.comm_sms != 0) config.fwd_num_comm_sms = static_cast<int>(arguments.comm_sms);
  const Device device = device_named(arguments.device);
  if (!arguments.out.empty() && arguments.out == arguments.picture) {
    throw UsageError("--out and --picture name the same file: give each one of its own.");
  }
  check_sizes(arguments.shape, config, device);
  std::optional<AtomicFile> out = open_file(arguments.out);
  std::optional<AtomicFile> picture = open_file(arguments.picture);

  const auto recordings = record(arguments, config, device);
  const std::vector<TimelineEvent>& events = recordings[recordings.size() / 2];
  const TimelineSummary summary = summarize(events);
  const std::string title = title_of(arguments.shape);
  const std::string place = describe(device);
  const auto microseconds = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e3; };
  fmt::print("{}\n  on {}\n", title, place);
  fmt::print("  {:.1f} us; {} recorded, fastest {:.1f} us, slowest {:.1f} us\n",
             microseconds(summary.duration_ns), recordings.size(),
             microseconds(duration_of(recordings.front())), microseconds(duration_of(recordings.back())));
  fmt::print("  busy: {:.1f} % of the time of workers that compute, {:.1f} % of those that dispatch\n\n{}",
             100 * busy_share(summary, false), 100 * busy_share(summary, true), cost_table(summary));
  if (out) {
    write_trace_events(out->stream(), events, {{"layer", title}, {"device", place}});
    out->commit();
  }
  if (picture) {
    picture->stream() << timeline_picture(summary, title, place);
    picture->commit();
  }
  return kExitOk;
}

}  // namespace

void add_trace(CLI::App& app, int& exit_status) {
  const auto arguments = std::make_shared<TraceArguments>();
  CLI::App* command = app.add_subcommand("trace", "Record who does what when in a forward on random data");
  add_options(*command, *arguments);
  command->footer(
      "The table tells the time that workers spent in each op; without --out and --picture it is "
      "all there is.");
  command->callback([arguments, &exit_status] { exit_status = run_trace(*arguments); });
}

}  // namespace mok::tool
