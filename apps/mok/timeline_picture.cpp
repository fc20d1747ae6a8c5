// SPDX-License-Identifier: Apache-2.0
#include "mok/timeline_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "mok/human.h"

namespace mok::tool {

namespace {

// ---- Sizes, in pixels ----
constexpr int kLeft = 150;  // of the time axis: room for the names of the lines
constexpr int kWidth = 1200;
constexpr int kRight = 30;
constexpr int kTop = 96;  // room for title and legend
constexpr int kBottom = 40;
constexpr int kGroupGap = 10;
constexpr int kLegendStep = 150;
constexpr int kLegendRow = 17;
// A line is as high as its number allows, so that a whole GPU fits on a screen.
constexpr int kLinesHeight = 700;
constexpr int kLeastLine = 5;
constexpr int kMostLine = 22;

constexpr int kMostDots = 2 * kWidth;
constexpr int kLeastDots = 50;

/// Both hold a contrast of 4 on white and on black.
constexpr std::string_view kInk = "#7a7a7a";
constexpr std::string_view kUnknownOp = "#8a8a8a";

/// Mid-tones that differ in lightness as well as in hue. A shared expert's op is the lighter sister of its
/// routed one.
std::string_view colour_of(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kColours = {{
      {"dispatch_x", "#e69f00"},
      {"dispatch_grad", "#c98a2b"},
      {"gate_up", "#1f78c8"},
      {"down", "#12996b"},
      {"weighted_sum", "#d1497a"},
      {"grad_sum", "#b0568f"},
      {"dhidden", "#d9541e"},
      {"dx", "#8a63c9"},
      {"weight_grad", "#a3712a"},
      {"shared_gate_up", "#6fb2ea"},
      {"shared_down", "#5fcfa5"},
      {"shared_dhidden", "#f08f66"},
      {"shared_dx", "#b79be6"},
      {"shared_weight_grad", "#cfa468"},
  }};
  const auto* found =
      std::find_if(kColours.begin(), kColours.end(), [&](const auto& colour) { return colour.first == op; });
  return found == kColours.end() ? kUnknownOp : found->second;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

/// A stretch of dots of one op.
struct Bar {
  int first = 0;
  int count = 0;
  std::size_t op = 0;
};

/// Every dot of a line shows the op that has most of its time; a dot without any work is empty.
std::vector<Bar> bars_of(const WorkerLine& line, std::uint64_t duration_ns, int dots) {
  const double dots_per_ns = dots / static_cast<double>(std::max<std::uint64_t>(1, duration_ns));
  std::vector<std::pair<double, std::size_t>> best(static_cast<std::size_t>(dots), {-1, 0});
  for (const WorkSpan& span : line.spans) {
    const double begin = static_cast<double>(span.begin_ns) * dots_per_ns;
    const double end = static_cast<double>(span.end_ns) * dots_per_ns;
    const int last = std::clamp(static_cast<int>(std::ceil(end)) - 1, 0, dots - 1);
    for (int dot = std::min(static_cast<int>(begin), last); dot <= last; ++dot) {
      const double part = std::min(end, dot + 1.0) - std::max(begin, static_cast<double>(dot));
      auto& of_dot = best[static_cast<std::size_t>(dot)];
      if (part > of_dot.first) of_dot = {part, span.op};
    }
  }
  std::vector<Bar> bars;
  for (int dot = 0; dot < dots; ++dot) {
    const auto [part, op] = best[static_cast<std::size_t>(dot)];
    if (part < 0) continue;
    const bool goes_on =
        !bars.empty() && bars.back().op == op && bars.back().first + bars.back().count == dot;
    if (goes_on) {
      ++bars.back().count;
    } else {
      bars.push_back({dot, 1, op});
    }
  }
  return bars;
}

/// Where the lines are: those of a rank and kind together, with a gap to the next.
struct Layout {
  int line_height = kMostLine;
  std::vector<int> y;  ///< of each line's middle
  int bottom = kTop;
};

bool same_group(const WorkerLine& a, const WorkerLine& b) {
  return a.rank == b.rank && a.communicates == b.communicates;
}

Layout layout_of(const std::vector<WorkerLine>& lines) {
  Layout layout;
  const auto count = static_cast<int>(std::max<std::size_t>(1, lines.size()));
  layout.line_height = std::clamp(kLinesHeight / count, kLeastLine, kMostLine);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && !same_group(lines[i - 1], lines[i])) layout.bottom += kGroupGap;
    layout.y.push_back(layout.bottom + layout.line_height / 2);
    layout.bottom += layout.line_height;
  }
  return layout;
}

std::string text(int x, int y, std::string_view anchor, std::string_view content) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(content));
}

std::string legend(const TimelineSummary& summary) {
  std::string svg;
  int x = kLeft;
  int y = kTop - 34;
  for (const OpCost& op : summary.ops) {
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, y - 10,
                       colour_of(op.name));
    svg += text(x + 18, y, "start", op.name);
    x += kLegendStep;
    if (x + kLegendStep > kLeft + kWidth) {
      x = kLeft;
      y += kLegendRow;
    }
  }
  return svg;
}

/// "rank 0 compute" beside the lines of each group, and how many workers they are.
std::string line_names(const TimelineSummary& summary, const Layout& layout) {
  std::string svg;
  for (std::size_t i = 0; i < summary.lines.size();) {
    const WorkerLine& first = summary.lines[i];
    std::size_t end = i + 1;
    while (end < summary.lines.size() && same_group(first, summary.lines[end])) ++end;
    const int middle = (layout.y[i] + layout.y[end - 1]) / 2 + 4;
    svg += text(
        kLeft - 10, middle, "end",
        fmt::format("rank {} {} ({})", first.rank, first.communicates ? "dispatch" : "compute", end - i));
    i = end;
  }
  return svg;
}

/// The largest of 1, 2, 5 * 10^n microseconds that still gives about ten ticks.
double tick_step(double microseconds) {
  const double least = std::max(1e-3, microseconds / 12);
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least) return factor * decade;
  }
  return 10 * decade;
}

std::string time_axis(const TimelineSummary& summary, const Layout& layout) {
  const double duration = static_cast<double>(summary.duration_ns) / 1e3;
  const double step = tick_step(duration);
  std::string svg;
  for (std::int64_t i = 0; static_cast<double>(i) * step <= duration; ++i) {
    const double tick = static_cast<double>(i) * step;
    const int x = kLeft + static_cast<int>(std::lround(tick / std::max(duration, step) * kWidth));
    svg += fmt::format("<path d=\"M{} {}V{}\" stroke=\"{}\" stroke-opacity=\"0.5\"/>\n", x, kTop - 6,
                       layout.bottom + 6, kInk);
    svg += text(x, layout.bottom + 20, "middle",
                step < 1 ? fmt::format("{:g}", tick) : grouped(std::llround(tick)));
  }
  svg += text(kLeft + kWidth, layout.bottom + 36, "end", "microseconds");
  return svg;
}

/// One path for each op. Horizontally a unit is a dot, so that most numbers have few digits.
std::string bars(const TimelineSummary& summary, const Layout& layout, int dots) {
  std::vector<std::string> paths(summary.ops.size());
  std::string idle;
  for (std::size_t i = 0; i < summary.lines.size(); ++i) {
    idle += fmt::format("M0 {}h{}", layout.y[i], dots);
    std::vector<int> pen(paths.size(), -1);  // where each path's last bar of this line ended
    for (const Bar& bar : bars_of(summary.lines[i], summary.duration_ns, dots)) {
      int& at = pen[bar.op];
      paths[bar.op] +=
          at < 0 ? fmt::format("M{} {}", bar.first, layout.y[i]) : fmt::format("m{} 0", bar.first - at);
      paths[bar.op] += fmt::format("h{}", bar.count);
      at = bar.first + bar.count;
    }
  }
  std::string svg =
      fmt::format("<g transform=\"translate({} 0) scale({:.6g} 1)\" fill=\"none\" stroke-width=\"{}\">\n",
                  kLeft, static_cast<double>(kWidth) / dots, layout.line_height - 1);
  svg += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-opacity=\"0.15\"/>\n", idle, kInk);
  for (std::size_t op = 0; op < paths.size(); ++op) {
    if (paths[op].empty()) continue;
    svg += fmt::format("<path d=\"{}\" stroke=\"{}\"/>\n", paths[op], colour_of(summary.ops[op].name));
  }
  return svg + "</g>\n";
}

}  // namespace

std::string timeline_picture(const TimelineSummary& summary, const std::string& title,
                             const std::string& device, std::size_t most_bytes) {
  const Layout layout = layout_of(summary.lines);
  const int width = kLeft + kWidth + kRight;
  const int height = layout.bottom + kBottom;
  std::string frame = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"{2}\">\n<title>{3}</title>\n",
      width, height, kInk, escaped(title));
  frame += text(kLeft, 22, "start", title);
  frame += text(
      kLeft, 41, "start",
      fmt::format("{}: {:.1f} us; workers that compute are busy {:.1f} % of it, those that dispatch {:.1f} %",
                  device, static_cast<double>(summary.duration_ns) / 1e3, 100 * busy_share(summary, false),
                  100 * busy_share(summary, true)));
  frame += legend(summary) + line_names(summary, layout);
  const std::string axis = time_axis(summary, layout) + "</svg>\n";
  for (int dots = kMostDots;; dots = dots * 4 / 5) {
    std::string picture = frame;
    picture += bars(summary, layout, dots);
    picture += axis;
    if (picture.size() <= most_bytes || dots < kLeastDots) return picture;
  }
}

}  // namespace mok::tool
