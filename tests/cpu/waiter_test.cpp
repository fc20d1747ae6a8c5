// SPDX-License-Identifier: Apache-2.0
// Waits: how they end, when their deadlines run, and what they leave behind.
#include "cpu/waiter.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "cpu/ranks.h"

namespace mok::cpu {
namespace {

using std::chrono::milliseconds;
using testing::Ranks;

constexpr WaitSubject kSubject{"gate_up", 17, "x_arrived"};

/// Two ranks; rank 0 waits.
class WaiterTest : public ::testing::Test {
 protected:
  WaiterTest() {
    ranks_.launch.settings.arrival_deadline_seconds = 0;
    ranks_.launch.settings.progress_deadline_seconds = 0;
  }

  bool wait(DeadlineKind kind) { return waiter_.wait(&word_, 5, kSubject, kind); }

  /// How long a wait for what never comes takes.
  double seconds_until_given_up(DeadlineKind kind) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(wait(kind));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void expect_aborted(std::uint64_t epoch) const {
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(*ranks_.at(ranks_.layout().abort, rank), epoch) << "rank " << rank;
  }

  Ranks ranks_{{4, 4}};
  FailureBox failures_;
  Waiter waiter_{ranks_.launch, failures_, 0, program::Role::compute, 6};
  std::uint32_t word_ = 0;
};

TEST_F(WaiterTest, ReturnsAtOnceWhenReached) {
  for (const std::uint32_t value : {5u, 6u, 0xFFFFFFFFu}) {
    word_ = value;
    EXPECT_TRUE(wait(DeadlineKind::progress));
  }
  EXPECT_FALSE(failures_.first().has_value());
}

TEST_F(WaiterTest, AcquiresWhatStandsBehindTheWord) {
  int payload = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    payload = 42;
    store_release(&word_, 5u);
  });
  EXPECT_TRUE(wait(DeadlineKind::progress));
  EXPECT_EQ(payload, 42);
  other.join();
  EXPECT_FALSE(failures_.first().has_value());
}

TEST_F(WaiterTest, DeadlineNamesWhoWaitedForWhat) {
  ranks_.arrive();
  ranks_.launch.settings.progress_deadline_seconds = 0.1;
  word_ = 3;
  EXPECT_GE(seconds_until_given_up(DeadlineKind::progress), 0.1);
  ASSERT_TRUE(failures_.first().has_value());
  const WaitFailure& failure = *failures_.first();
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.worker, 6);
  EXPECT_EQ(failure.role, "compute");
  EXPECT_EQ(failure.op, "gate_up");
  EXPECT_EQ(failure.tile, 17);
  EXPECT_EQ(failure.counter, "x_arrived");
  EXPECT_EQ(failure.expected, 5u);
  EXPECT_EQ(failure.seen, 3u);
  EXPECT_EQ(failure.seconds, 0.1);
  expect_aborted(ranks_.launch.epoch);
}

TEST_F(WaiterTest, AbortByAnotherEndsTheWaitAndIsNoFailureOfItsOwn) {
  ranks_.arrive();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    raise_release(ranks_.at(ranks_.layout().abort, 0), 2);
  });
  EXPECT_FALSE(wait(DeadlineKind::progress));  // no deadline: only the abort can end it
  other.join();
  EXPECT_TRUE(waiter_.aborted());
  EXPECT_FALSE(failures_.first().has_value());
  EXPECT_EQ(*ranks_.at(ranks_.layout().abort, 0), 2u) << "the failing epoch is kept";
}

TEST_F(WaiterTest, ReachedCountsMoreThanAborted) {
  raise_release(ranks_.at(ranks_.layout().abort, 0), 3);
  word_ = 5;
  EXPECT_TRUE(wait(DeadlineKind::progress));
}

// The beats are another rank's: its work is progress for all.
TEST_F(WaiterTest, HeartbeatsRestartTheProgressDeadline) {
  ranks_.arrive();
  ranks_.launch.settings.progress_deadline_seconds = 1;
  std::atomic<bool> last_beat = false;
  std::thread other([&] {
    std::uint64_t* const beat = ranks_.at(ranks_.layout().heartbeat, 1);
    for (int i = 0; i < 40; ++i) {  // for twice the deadline
      std::this_thread::sleep_for(milliseconds(50));
      std::atomic_ref<std::uint64_t>(*beat).fetch_add(1);
    }
    last_beat = true;
  });
  EXPECT_FALSE(wait(DeadlineKind::progress));
  EXPECT_TRUE(last_beat) << "given up although another rank was working";
  other.join();
  EXPECT_TRUE(failures_.first().has_value());
}

TEST_F(WaiterTest, HeartbeatsDoNotExtendTheArrivalDeadline) {
  ranks_.launch.settings.arrival_deadline_seconds = 0.1;
  std::atomic<bool> given_up = false;
  std::thread other([&] {
    std::uint64_t* const beat = ranks_.at(ranks_.layout().heartbeat, 1);
    while (!given_up) std::atomic_ref<std::uint64_t>(*beat).fetch_add(1);
  });
  EXPECT_GE(seconds_until_given_up(DeadlineKind::arrival), 0.1);
  given_up = true;
  other.join();
  ASSERT_TRUE(failures_.first().has_value());
  EXPECT_EQ(failures_.first()->seconds, 0.1);
}

// Peers may take long to come (checkpointing, compiling): progress is not asked of anybody before they have.
TEST_F(WaiterTest, ProgressDeadlineWaitsForArrival) {
  ranks_.arrive(0);
  ranks_.launch.settings.progress_deadline_seconds = 0.1;
  std::atomic<bool> arrived = false;
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(600));
    arrived = true;
    ranks_.arrive(1);
  });
  EXPECT_FALSE(wait(DeadlineKind::progress));
  EXPECT_TRUE(arrived) << "given up before all had arrived";
  other.join();
}

TEST_F(WaiterTest, ZeroIsNoDeadline) {
  ranks_.arrive();
  for (const DeadlineKind kind : {DeadlineKind::arrival, DeadlineKind::progress}) {
    word_ = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(300));
      store_release(&word_, 5u);
    });
    EXPECT_TRUE(wait(kind));
    other.join();
  }
  EXPECT_FALSE(failures_.first().has_value());
}

TEST(FailureBox, HoldsTheFirst) {
  FailureBox box;
  EXPECT_FALSE(box.first().has_value());
  WaitFailure failure;
  for (const int rank : {3, 1, 2}) {
    failure.rank = rank;
    box.record(failure);
  }
  EXPECT_EQ(box.first()->rank, 3);
}

TEST(RaiseRelease, KeepsTheHigherValue) {
  std::uint64_t word = 4;
  raise_release(&word, 7);
  EXPECT_EQ(word, 7u);
  raise_release(&word, 5);
  EXPECT_EQ(word, 7u);
  std::thread other([&word] {
    for (std::uint64_t value = 8; value < 4000; value += 2) raise_release(&word, value);
  });
  for (std::uint64_t value = 9; value < 4000; value += 2) raise_release(&word, value);
  other.join();
  EXPECT_EQ(word, 3999u);
}

}  // namespace
}  // namespace mok::cpu
