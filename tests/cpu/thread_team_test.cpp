// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_team.h"

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mok/error.h>

namespace mok::cpu {
namespace {

TEST(ThreadTeam, RunsEveryBodyOnce) {
  std::atomic<int> ran = 0;
  run_together(std::vector<std::function<void()>>(20, [&ran] { ++ran; }));
  EXPECT_EQ(ran, 20);
}

TEST(ThreadTeam, BodiesMayWaitForEachOther) {
  std::atomic<int> here = 0;
  run_together(std::vector<std::function<void()>>(8, [&here] {
    ++here;
    while (here < 8) std::this_thread::yield();
  }));
  EXPECT_EQ(here, 8);
}

/// Where stacks do not fit the address space, thread creation fails half-way.
TEST(ThreadTeam, BeginsNothingWhenThreadsRunOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory needs the address space that this test takes away";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = rlim_t{1} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  std::atomic<int> ran = 0;
  std::string sentence;
  try {
    run_together(std::vector<std::function<void()>>(1000, [&ran] { ++ran; }));
  } catch (const Error& error) {
    sentence = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(ran, 0);
  EXPECT_NE(sentence.find("of 1000 worker threads"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("lower cpu.num_compute_workers"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace mok::cpu
