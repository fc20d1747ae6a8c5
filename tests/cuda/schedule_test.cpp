// SPDX-License-Identifier: Apache-2.0
// The schedule that the GPU builds against program::build_schedule, bit for bit.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "cuda/host/launch.h"
#include "cuda/host/memory.h"
#include "cuda/support/device_buffer.h"
#include "cuda/support/gpu.h"
#include "program/routing.h"

namespace mok::testing {
namespace {

using program::Routing;
using program::RoutingKind;
using program::ScheduleLayout;
using program::Schedules;
using program::ScheduleTables;
using program::Shape;
using program::Stretch;
using program::SymmetricLayout;

/// Neither -1 nor a small number: what is left of it in a table is no result.
constexpr int kPoison = 0xA5;
/// Bytes behind a rank's memory that must stay poisoned.
constexpr std::int64_t kGuardBytes = 256;

/// An id beyond 32 bits stands in the reference's ids as int32's lowest value.
constexpr std::int32_t kBeyond = std::numeric_limits<std::int32_t>::min();

std::vector<std::int64_t> widened(const std::vector<std::int32_t>& ids) {
  std::vector<std::int64_t> wide;
  wide.reserve(ids.size());
  for (const std::int32_t id : ids) wide.push_back(id == kBeyond ? (std::int64_t{1} << 32) + 1 : id);
  return wide;
}

/// The schedules of all ranks in the GPU's memory, and everything that their build takes.
class GpuSchedules {
 public:
  GpuSchedules(const Shape& shape, bool is_int64) : shape_(shape), is_int64_(is_int64) {
    const program::Dims dims = shape.dims(0);
    symmetric_layout_ = program::make_layout<SymmetricLayout>(dims);
    layout_ = program::make_layout<ScheduleLayout>(dims);
    bytes_ = layout_.bytes + cuda::schedule_scratch_bytes(dims);
    std::vector<std::byte*> peers;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      symmetric_.emplace_back(symmetric_layout_.bytes);
      symmetric_.back().fill(0);  // flags and epoch
      peers.push_back(symmetric_.back().data());
      memory_.emplace_back(bytes_ + kGuardBytes);
      narrow_.emplace_back(is_int64 ? 0 : dims.slots());
      wide_.emplace_back(is_int64 ? dims.slots() : 0);
    }
    peers_ = DeviceBuffer<std::byte*>(peers);
  }

  /// Brings ids onto the GPU and poisons all memory that the build writes, but for flags.
  void bring(const Routing& routing) {
    const std::int64_t slots = shape_.max_tokens * shape_.topk;
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      const auto first = routing.ids.begin() + static_cast<std::int64_t>(rank) * slots;
      const std::vector<std::int32_t> ids(first, first + slots);
      if (is_int64_) wide_[rank].upload(widened(ids));
      if (!is_int64_) narrow_[rank].upload(ids);
      memory_[rank].fill(kPoison);
      const program::Field<std::int32_t>& staged = symmetric_layout_.topk_experts;
      require_success(
          cudaMemset(staged.at(symmetric_[rank].data()), kPoison, static_cast<std::size_t>(staged.bytes())),
          "cudaMemset");
    }
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    status_.clear();
  }

  void enqueue(const std::vector<std::int64_t>& num_tokens) {
    cuda::ScheduleLaunch launch;
    launch.status = status_.on_device();
    launch.stream = stream_.get();
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      std::byte* const base = memory_[r].data();
      ops::RankView view;
      view.dims = shape_.dims(rank);
      view.tables = layout_.tables(base, view.dims);
      view.symmetric = symmetric_layout_;
      view.peers = peers_.data();
      launch.ranks.push_back(view);
      const void* const ids = is_int64_ ? static_cast<const void*>(wide_[r].data()) : narrow_[r].data();
      launch.routing.push_back({ids, is_int64_, num_tokens[r], layout_.gathered.at(base),
                                layout_.histogram.at(base), layout_.expert_tile.at(base),
                                base + layout_.bytes});
    }
    cuda::enqueue_schedule(launch);
  }

  /// What a rank's memory holds; waits.
  [[nodiscard]] std::vector<std::byte> download(int rank) const {
    return memory_[static_cast<std::size_t>(rank)].download();
  }
  [[nodiscard]] std::vector<std::byte> download_symmetric(int rank) const {
    return symmetric_[static_cast<std::size_t>(rank)].download();
  }
  [[nodiscard]] const program::ScheduleHeader& told() const { return status_.read().schedule; }
  [[nodiscard]] const ScheduleLayout& layout() const { return layout_; }
  [[nodiscard]] const SymmetricLayout& symmetric_layout() const { return symmetric_layout_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] const TestStream& stream() const { return stream_; }

 private:
  Shape shape_;
  bool is_int64_;
  SymmetricLayout symmetric_layout_;
  ScheduleLayout layout_;
  std::int64_t bytes_ = 0;
  std::vector<DeviceBuffer<std::byte>> symmetric_;
  std::vector<DeviceBuffer<std::byte>> memory_;
  std::vector<DeviceBuffer<std::int32_t>> narrow_;
  std::vector<DeviceBuffer<std::int64_t>> wide_;
  DeviceBuffer<std::byte*> peers_;
  cuda::PinnedStatus status_;
  TestStream stream_;
};

template <class T>
void expect_same(const T* built, const T* expected, std::int64_t count, const char* table) {
  if (std::memcmp(built, expected, static_cast<std::size_t>(count) * sizeof(T)) == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    if (built[i] == expected[i]) continue;
    FAIL() << table << "[" << i << "] is " << built[i] << "; it must be " << expected[i];
  }
}

/// A stretch as text: its parts have padding, whose bytes mean nothing.
std::string text(const Stretch& stretch) {
  std::ostringstream out;
  out << "phase " << stretch.phase << " step " << stretch.step << ":";
  out << " " << stretch.num_parts << " parts";
  for (const program::Part& part : stretch.parts) {
    out << " " << static_cast<int>(part.op) << "/" << part.minibatch << "/" << part.first << "/"
        << part.units;
  }
  out << " behind";
  for (const std::int32_t units : stretch.units_before) out << " " << units;
  return out.str();
}

void expect_same_headers(const program::ScheduleHeader& built, const program::ScheduleHeader& expected) {
  EXPECT_EQ(built.refusal, expected.refusal);
  EXPECT_EQ(built.refusal_rank, expected.refusal_rank);
  EXPECT_EQ(built.refusal_expert, expected.refusal_expert);
  EXPECT_EQ(built.refusal_choice, expected.refusal_choice);
  EXPECT_EQ(built.refusal_token, expected.refusal_token);
  EXPECT_EQ(built.refusal_rows, expected.refusal_rows);
  EXPECT_EQ(built.num_tokens, expected.num_tokens);
  EXPECT_EQ(built.num_tiles, expected.num_tiles);
  EXPECT_EQ(built.max_steps, expected.max_steps);
  for (int pass = 0; pass < program::kNumPasses; ++pass) {
    for (int role = 0; role < program::kNumRoles; ++role) {
      EXPECT_EQ(built.num_stretches[pass][role], expected.num_stretches[pass][role]) << pass << " " << role;
    }
  }
  EXPECT_EQ(std::memcmp(&built, &expected, sizeof(built)), 0);
}

void expect_same_stretches(const ScheduleTables& built, const ScheduleTables& expected) {
  for (int pass = 0; pass < program::kNumPasses; ++pass) {
    for (int role = 0; role < program::kNumRoles; ++role) {
      for (std::int32_t i = 0; i < expected.header->num_stretches[pass][role]; ++i) {
        ASSERT_EQ(text(built.stretches[pass][role][i]), text(expected.stretches[pass][role][i]))
            << "pass " << pass << ", role " << role << ", stretch " << i;
      }
    }
  }
}

void expect_same_tables(const ScheduleTables& built, const ScheduleTables& expected,
                        const program::Dims& dims) {
  expect_same_headers(*built.header, *expected.header);
  expect_same(built.source_rank, expected.source_rank, dims.capacity_rows(), "source_rank");
  expect_same(built.source_slot, expected.source_slot, dims.capacity_rows(), "source_slot");
  expect_same(built.rows_per_expert, expected.rows_per_expert, dims.local_experts(), "rows_per_expert");
  expect_same(built.first_tile, expected.first_tile, dims.local_experts() + 1, "first_tile");
  expect_same(built.tile_expert, expected.tile_expert, dims.capacity_tiles(), "tile_expert");
  expect_same(built.topk_experts, expected.topk_experts, dims.slots(), "topk_experts");
  expect_same(built.rank_tiles, expected.rank_tiles, dims.ranks, "rank_tiles");
  for (int table = 0; table < 2; ++table) {
    expect_same(built.token_order[table], expected.token_order[table], dims.max_tokens, "token_order");
    expect_same(built.sum_begin[table], expected.sum_begin[table], dims.max_steps() + 1, "sum_begin");
  }
  if (built.header->refusal == expected.header->refusal && !::testing::Test::HasFailure()) {
    expect_same_stretches(built, expected);
  }
}

/// Compares what the GPU has built with the reference.
void expect_same_schedules(const GpuSchedules& gpu, const Schedules& expected) {
  for (int rank = 0; rank < expected.shape.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    SCOPED_TRACE(::testing::Message() << "rank " << rank << " of " << expected.shape);
    std::vector<std::byte> memory = gpu.download(rank);
    const program::Dims& dims = expected.dims[r];
    expect_same_tables(gpu.layout().tables(memory.data(), dims), expected.tables[r], dims);
    for (std::int64_t i = 0; i < kGuardBytes; ++i) {
      ASSERT_EQ(memory[static_cast<std::size_t>(gpu.bytes() + i)], std::byte{kPoison})
          << i << " behind the end";
    }
  }
  expect_same_headers(gpu.told(), expected.header(0));
}

void check_case(const Shape& shape, const Routing& routing) {
  const Schedules expected(shape, routing, kPoison);
  for (const bool is_int64 : {false, true}) {
    SCOPED_TRACE(is_int64 ? "int64" : "int32");
    GpuSchedules gpu(shape, is_int64);
    gpu.bring(routing);
    gpu.enqueue(routing.num_tokens);
    expect_same_schedules(gpu, expected);
    if (::testing::Test::HasFailure()) return;
  }
}

Shape random_shape(program::Random& random) {
  Shape shape;
  shape.ranks = random.one_of({1, 2, 4, 8});
  shape.experts = shape.ranks * random.one_of({1, 2, 5, 16, 40});
  shape.topk = program::min(random.one_of({1, 2, 3, 6, 8, 32}), shape.experts);
  shape.max_tokens = random.one_of<std::int64_t>({1, 31, 33, 100, 257, 700, 1500});
  shape.minibatch = program::kRowTile * random.one_of({1, 1, 2, 3});
  shape.macrobatch = shape.minibatch * random.one_of({1, 2, 5, 100});
  shape.multiplier = random.one_of({1.0, 1.0, 0.5, 0.01});
  return shape;
}

/// Overwrites an id of some rank, if it has tokens.
void spoil(const Shape& shape, Routing& routing, program::Random& random) {
  const std::int64_t rank = random.between(0, shape.ranks - 1);
  const std::int64_t ids = routing.num_tokens[static_cast<std::size_t>(rank)] * shape.topk;
  if (ids == 0) return;
  const std::int64_t at = rank * shape.max_tokens * shape.topk + random.between(0, ids - 1);
  routing.ids[static_cast<std::size_t>(at)] =
      random.one_of<std::int32_t>({-2, shape.experts, kBeyond, std::numeric_limits<std::int32_t>::max()});
}

TEST(GpuSchedule, RandomRoutings) {
  MOK_REQUIRE_GPU();
  const std::uint64_t cases = program::small_run() ? 30 : 150;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    program::Random random(seed);
    const Shape shape = random_shape(random);
    const RoutingKind kind = program::kRoutingKinds[random.between(0, 5)];
    Routing routing = program::make_routing(shape, kind, seed, random.between(0, 1) == 1);
    if (random.between(0, 5) == 0) {
      for (int i = 0; i < 3; ++i) spoil(shape, routing, random);
    }
    check_case(shape, routing);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(GpuSchedule, NoTokens) {
  MOK_REQUIRE_GPU();
  for (const int ranks : {1, 4}) {
    Shape shape;
    shape.ranks = ranks;
    Routing routing = program::make_routing(shape, RoutingKind::all_dropped, 0);
    check_case(shape, routing);
    for (std::int64_t& tokens : routing.num_tokens) tokens = 0;
    check_case(shape, routing);
  }
}

// Several macrobatches, more steps than one CTA has threads, and experts cut by both.
TEST(GpuSchedule, ManySteps) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.topk = 8;
  shape.experts = 64;
  shape.max_tokens = 18000;
  shape.macrobatch = 1024;
  check_case(shape, program::make_routing(shape, RoutingKind::skewed, 1));
  check_case(shape, program::make_routing(shape, RoutingKind::one_expert, 2));
}

// More experts than a CTA has threads; the most make runs longer, for the sake of memory.
TEST(GpuSchedule, ManyExperts) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.ranks = 2;
  shape.topk = 4;
  shape.max_tokens = 3000;
  for (const int experts : {1024, 2500, 65536}) {
    shape.experts = experts;
    check_case(shape, program::make_routing(shape, RoutingKind::uniform, 3, true));
  }
}

TEST(GpuSchedule, ManyRoutes) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.topk = 8;
  shape.experts = 128;
  shape.max_tokens = 16384;
  shape.minibatch = 4096;
  shape.macrobatch = 131072;
  for (const int ranks : {1, 8}) {
    shape.ranks = ranks;
    check_case(shape, program::make_routing(shape, RoutingKind::uniform, 4));
  }
}

TEST(GpuSchedule, FirstIdOutOfRangeIsTheRefusal) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.ranks = 4;
  shape.max_tokens = 2000;
  const Routing good = program::make_routing(shape, RoutingKind::dropped, 5);
  const std::int64_t slots = shape.max_tokens * shape.topk;
  for (const std::int32_t id : {-2, shape.experts, kBeyond, std::numeric_limits<std::int32_t>::max()}) {
    for (const std::int64_t first : {std::int64_t{0}, slots - 1, 2 * slots + 1777, 4 * slots - 1}) {
      Routing bad = good;
      for (std::int64_t i = first; i < 4 * slots; i += 511) bad.ids[static_cast<std::size_t>(i)] = 1000;
      bad.ids[static_cast<std::size_t>(first)] = id;
      check_case(shape, bad);
    }
  }
}

TEST(GpuSchedule, OverflowNamesTheFullestRank) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.ranks = 8;
  shape.experts = 32;
  shape.multiplier = 0.01;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    check_case(shape, program::make_routing(shape, RoutingKind::skewed, seed));
    check_case(shape, program::make_routing(shape, RoutingKind::one_expert, seed));
  }
}

/// Sees that all ranks have come to `epoch` and have told each other.
void expect_epoch(const GpuSchedules& gpu, int ranks, std::uint64_t epoch) {
  const SymmetricLayout& at = gpu.symmetric_layout();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::byte> memory = gpu.download_symmetric(rank);
    EXPECT_EQ(*at.epoch.at(memory.data()), epoch) << "rank " << rank;
    for (int peer = 0; peer < ranks; ++peer) {
      EXPECT_EQ(at.ready.at(memory.data())[peer], epoch) << "rank " << rank << ", peer " << peer;
      EXPECT_EQ(at.done.at(memory.data())[peer], epoch) << "rank " << rank << ", peer " << peer;
    }
  }
}

// A schedule is a pass like any other, a refused one too.
TEST(GpuSchedule, AdvancesTheEpoch) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.ranks = 4;
  GpuSchedules gpu(shape, false);
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    Routing routing = program::make_routing(shape, RoutingKind::uniform, epoch);
    if (epoch == 2) routing.ids[7] = shape.experts;
    gpu.bring(routing);
    gpu.enqueue(routing.num_tokens);
    expect_same_schedules(gpu, Schedules(shape, routing, kPoison));
    expect_epoch(gpu, shape.ranks, epoch);
  }
}

TEST(GpuSchedule, RepeatsToTheBit) {
  MOK_REQUIRE_GPU();
  Shape shape;
  shape.ranks = 2;
  shape.topk = 8;
  shape.experts = 64;
  shape.max_tokens = 4000;
  const Routing routing = program::make_routing(shape, RoutingKind::skewed, 6);
  const Schedules expected(shape, routing, kPoison);
  GpuSchedules gpu(shape, true);
  for (int repeat = 0; repeat < 20; ++repeat) {
    gpu.bring(routing);
    gpu.enqueue(routing.num_tokens);
    expect_same_schedules(gpu, expected);
  }
}

// A graph captured once follows the ids that stand in the same memory later.
TEST(GpuSchedule, GraphReplaysWithOtherIds) {
  MOK_REQUIRE_GPU();
  for (const int ranks : {1, 4}) {
    Shape shape;
    shape.ranks = ranks;
    shape.topk = 4;
    shape.experts = 16;
    shape.max_tokens = 1000;
    GpuSchedules gpu(shape, ranks == 4);
    Routing routing = program::make_routing(shape, RoutingKind::uniform, 7);
    gpu.bring(routing);
    gpu.enqueue(routing.num_tokens);
    gpu.stream().synchronize();

    cudaGraph_t graph = nullptr;
    require_success(cudaStreamBeginCapture(gpu.stream().get(), cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
    gpu.enqueue(routing.num_tokens);
    require_success(cudaStreamEndCapture(gpu.stream().get(), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t replay = nullptr;
    require_success(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      routing = program::make_routing(shape, program::kRoutingKinds[seed], seed);
      if (seed == 3) routing.ids[500] = -7;
      gpu.bring(routing);
      require_success(cudaGraphLaunch(replay, gpu.stream().get()), "cudaGraphLaunch");
      gpu.stream().synchronize();
      expect_same_schedules(gpu, Schedules(shape, routing, kPoison));
      expect_epoch(gpu, ranks, seed + 2);
    }
    require_success(cudaGraphExecDestroy(replay), "cudaGraphExecDestroy");
    require_success(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
}

}  // namespace
}  // namespace mok::testing
