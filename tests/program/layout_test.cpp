// SPDX-License-Identifier: Apache-2.0
// Layouts: fields in their place, none forgotten in the report.
#include "program/layout.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "program/counters.h"
#include "program/routing.h"

namespace mok::program {
namespace {

/// One field as visit() tells it.
struct Reported {
  std::string name;
  std::int64_t offset, bytes, count, wanted;
};

struct Reporter {
  std::vector<Reported>& fields;

  template <class T>
  void operator()(const char* field_name, const Field<T>& field, std::int64_t count) const {
    fields.push_back({field_name, field.offset, field.bytes(), field.count, count});
    EXPECT_EQ(field.offset % static_cast<std::int64_t>(alignof(T)), 0);
    EXPECT_EQ(field.bytes(), count * static_cast<std::int64_t>(sizeof(T)));
  }
};

/// `num_fields` counts the members of the struct: a field that visit() leaves out would have no memory.
template <class Layout>
void expect_layout(const Dims& dims) {
  const auto layout = make_layout<Layout>(dims);
  std::vector<Reported> fields;
  Layout::visit(layout, dims, Reporter{fields});
  std::int64_t end = 0;
  std::int64_t sum = 0;
  for (const Reported& field : fields) {
    SCOPED_TRACE(field.name);
    EXPECT_EQ(field.offset % 256, 0);
    EXPECT_GE(field.offset, end);  // the fields before end there
    EXPECT_EQ(field.count, field.wanted);
    end = field.offset + field.bytes;
    sum += ceil_div(field.bytes, kFieldAlignment) * kFieldAlignment;
  }
  EXPECT_EQ(layout.bytes, sum);
  EXPECT_GE(layout.bytes, end);
  // Every member but `bytes` is a Field, and visit() names each of them once.
  constexpr std::size_t kMembers = (sizeof(Layout) - sizeof(std::int64_t)) / sizeof(Field<std::byte>);
  EXPECT_EQ(fields.size(), kMembers);
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int ranks : {1, 3, 8}) {
    for (const std::int64_t macrobatch : {128, 1024, 65536}) {
      for (const std::int64_t max_tokens : {0, 1, 777}) {
        Shape shape;
        shape.ranks = ranks;
        shape.experts = 3 * ranks;
        shape.max_tokens = max_tokens;
        shape.hidden = 192;
        shape.intermediate = 320;
        shape.shared = ranks == 3 ? 0 : 64;
        shape.macrobatch = macrobatch;
        all.push_back(shape);
      }
    }
  }
  return all;
}

TEST(Layout, FieldsStandApart) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape);
    expect_layout<SymmetricLayout>(shape.dims(0));
    expect_layout<LocalLayout>(shape.dims(0));
    expect_layout<ScheduleLayout>(shape.dims(0));
    expect_layout<ContextLayout>(shape.dims(0));
  }
}

TEST(Layout, SymmetricMemoryIsTheSameForEveryLayerAndRank) {
  Shape one, other;
  one.ranks = other.ranks = 4;
  other.experts = 64;
  other.intermediate = 320;
  other.shared = 64;
  other.macrobatch = 4096;
  const auto first = make_layout<SymmetricLayout>(one.dims(0));
  const auto second = make_layout<SymmetricLayout>(other.dims(3));
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.weight_slots.offset, second.weight_slots.offset);
}

TEST(Layout, ReplayAndCarryOnlyWhenRowsCanPassTheMacrobatch) {
  Shape shape;
  shape.max_tokens = 512;
  shape.topk = 2;
  shape.experts = 2;
  shape.macrobatch = 65536;
  const auto whole = make_layout<LocalLayout>(shape.dims(0));
  EXPECT_EQ(whole.replay_x.count, 0);
  EXPECT_EQ(whole.carry.count, 0);
  shape.macrobatch = 256;
  const auto cut = make_layout<LocalLayout>(shape.dims(0));
  EXPECT_EQ(cut.replay_x.count, 256 * shape.hidden);
  EXPECT_EQ(cut.carry.count, 2 * 3 * shape.hidden * shape.intermediate);
}

TEST(Counters, KindsStandApart) {
  for (const Shape& shape : shapes()) {
    const auto counters = CounterLayout::make(shape.dims(0));
    std::int64_t next = 0;
    for (int c = 0; c < static_cast<int>(Counter::count); ++c) {
      EXPECT_EQ(counters.begin[c], next);
      for (std::int64_t i = counters.begin[c]; i < counters.begin[c + 1]; ++i) {
        ASSERT_EQ(counters.kind_of(i), static_cast<Counter>(c));
      }
      next = counters.begin[c + 1];
    }
    EXPECT_EQ(counters.size(), next);
  }
}

TEST(Watermark, OrdersEpochsBeforeSteps) {
  EXPECT_LT(watermark_value(1, 0), watermark_value(1, 1));
  EXPECT_LT(watermark_value(1, (1 << kWatermarkStepBits) - 1), watermark_value(2, 0));
  EXPECT_LT(watermark_value(0, 5), watermark_value(1, 0));
  constexpr std::uint64_t kLate = std::uint64_t{1} << (63 - kWatermarkStepBits);
  EXPECT_LT(watermark_value(kLate - 1, 7), watermark_value(kLate, 0));
  EXPECT_EQ(watermark_value(3, 4) >> kWatermarkStepBits, 3u);
}

}  // namespace
}  // namespace mok::program
