// SPDX-License-Identifier: Apache-2.0
// Routings of all kinds, and the schedules of all ranks built from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <mok/config.h>

#include "program/dims.h"
#include "program/layout.h"
#include "program/schedule.h"

namespace mok::program {

/// Sizes of a group of ranks and its layer.
struct Shape {
  int ranks = 1;
  int topk = 2;
  int experts = 4;
  std::int64_t max_tokens = 256;
  std::int64_t hidden = 128;
  std::int64_t intermediate = 128;
  std::int64_t shared = 0;
  std::int64_t minibatch = 128;
  std::int64_t macrobatch = 1024;
  double multiplier = 1.0;
  TileShape tile = {};

  Dims dims(int rank) const {
    Config config;
    config.minibatch_size = minibatch;
    config.macrobatch_size = macrobatch;
    config.schedule_capacity_multiplier = multiplier;
    WorkspaceOptions options;
    options.ranks = ranks;
    options.max_tokens = max_tokens;
    options.hidden_size = hidden;
    options.topk = topk;
    const LayerShape layer{experts, intermediate, shared};
    return make_dims(config, options, layer, rank, tile);
  }
};

/// Tiles of the CPU backend, and of a GPU with wide tiles.
inline constexpr TileShape kCpuTiles{};
inline constexpr TileShape kGpuTiles{128, 256, 256, 256, 128, 256};

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "R=" << s.ranks << " K=" << s.topk << " E=" << s.experts << " Tmax=" << s.max_tokens
             << " H=" << s.hidden << " I=" << s.intermediate << " Is=" << s.shared
             << " minibatch=" << s.minibatch << " macrobatch=" << s.macrobatch
             << " multiplier=" << s.multiplier << " down_cols=" << s.tile.down_cols;
}

enum class RoutingKind {
  uniform,      ///< any expert
  skewed,       ///< expert e twice as likely as e + 1
  one_expert,   ///< all routes to one expert
  few_experts,  ///< most experts have no rows
  dropped,      ///< every other route dropped, some tokens without any
  all_dropped
};
inline constexpr RoutingKind kRoutingKinds[] = {RoutingKind::uniform,    RoutingKind::skewed,
                                                RoutingKind::one_expert, RoutingKind::few_experts,
                                                RoutingKind::dropped,    RoutingKind::all_dropped};

/// Expert ids of all ranks.
struct Routing {
  std::vector<std::int64_t> num_tokens;  ///< [R]
  std::vector<std::int32_t> ids;         ///< [R,Tmax,K], -1 past a rank's tokens
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [first, last]; the same on every standard library.
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(last - first + 1));
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

inline std::int32_t random_expert(const Shape& shape, RoutingKind kind, std::int64_t favourite,
                                  Random& random) {
  const std::int64_t last = shape.experts - 1;
  switch (kind) {
    case RoutingKind::uniform:
      break;
    case RoutingKind::skewed: {
      std::int64_t e = 0;
      while (e < last && random.between(0, 1) == 0) ++e;
      return static_cast<std::int32_t>(e);
    }
    case RoutingKind::one_expert:
      return static_cast<std::int32_t>(favourite);
    case RoutingKind::few_experts:
      return static_cast<std::int32_t>((favourite + 3 * random.between(0, 1)) % shape.experts);
    case RoutingKind::dropped:
      if (random.between(0, 1) == 0) return -1;
      break;
    case RoutingKind::all_dropped:
      return -1;
  }
  return static_cast<std::int32_t>(random.between(0, last));
}

/// Ids of all ranks. With `uneven` each rank brings a number of tokens of its own, some of them none.
inline Routing make_routing(const Shape& shape, RoutingKind kind, std::uint64_t seed, bool uneven = false) {
  Random random(seed);
  Routing routing;
  routing.ids.assign(shape.ranks * shape.max_tokens * shape.topk, -1);
  const std::int64_t favourite = random.between(0, shape.experts - 1);
  for (int p = 0; p < shape.ranks; ++p) {
    const bool none = uneven && random.between(0, 3) == 0;
    routing.num_tokens.push_back(none ? 0 : uneven ? random.between(1, shape.max_tokens) : shape.max_tokens);
    const std::int64_t first = p * shape.max_tokens * shape.topk;
    for (std::int64_t s = 0; s < routing.num_tokens.back() * shape.topk; ++s) {
      routing.ids[first + s] = random_expert(shape, kind, favourite, random);
    }
  }
  return routing;
}

/// The schedules of all ranks, and the memory that they stand in, full of `poison` bytes before they are
/// built.
class Schedules {
 public:
  Schedules(const Shape& of_shape, Routing of_routing, int poison = 0xa5)
      : shape(of_shape), routing(std::move(of_routing)) {
    for (int rank = 0; rank < shape.ranks; ++rank) build(rank, poison);
  }
  Schedules(const Schedules&) = delete;
  Schedules& operator=(const Schedules&) = delete;

  const ScheduleHeader& header(int rank) const { return *tables[rank].header; }

  Shape shape;
  Routing routing;
  std::vector<Dims> dims;
  std::vector<ScheduleTables> tables;
  std::vector<std::vector<std::uint64_t>> memory;  ///< words, so that it is aligned

 private:
  void build(int rank, int poison) {
    const Dims d = shape.dims(rank);
    const auto layout = make_layout<ScheduleLayout>(d);
    memory.emplace_back(layout.bytes / 8 + 1);
    auto* base = reinterpret_cast<std::byte*>(memory.back().data());
    std::memset(base, poison, layout.bytes);
    std::memcpy(layout.gathered.at(base), routing.ids.data(), layout.gathered.bytes());
    const RoutingInput input{layout.gathered.at(base), routing.num_tokens[rank], layout.histogram.at(base),
                             layout.expert_tile.at(base)};
    dims.push_back(d);
    tables.push_back(layout.tables(base, d));
    build_schedule(d, input, tables.back());
  }
};

/// Whether MOK_TEST_SMALL asks for fewer random shapes.
inline bool small_run() {
  const char* value = std::getenv("MOK_TEST_SMALL");
  return value != nullptr && std::string(value) != "0" && *value != '\0';
}

}  // namespace mok::program
