//===- ThreadPoolTest.cpp - Tests of loops on several threads -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/ThreadPool.h"
#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Failure.h"
#include "gtest/gtest.h"

#include <chrono>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

using namespace fuse::runtime;

/// Runs a loop and counts how often each task ran.
template <typename Task>
static void runTasks(ThreadPool &pool, size_t count, Task task) {
  pool.run(
      count,
      [](void *context, size_t first, size_t last) {
        for (size_t i = first; i < last; ++i)
          (*static_cast<Task *>(context))(i);
      },
      &task);
}

static std::vector<std::atomic<int>> countRuns(ThreadPool &pool, size_t count) {
  std::vector<std::atomic<int>> runs(count);
  runTasks(pool, count, [&](size_t i) { ++runs[i]; });
  return runs;
}

TEST(ThreadPoolTest, RunsEveryTaskOnce) {
  for (unsigned threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.getNumThreads(), threads);
    for (size_t count : {0, 1, 2, 7, 96, 1000})
      for (const std::atomic<int> &runs : countRuns(pool, count))
        ASSERT_EQ(runs, 1);
  }
}

/// All threads of a loop see the writes of the previous loop.
TEST(ThreadPoolTest, OrdersLoops) {
  ThreadPool pool(4);
  std::vector<size_t> values(64, 0);
  for (size_t round = 1; round <= 2000; ++round)
    runTasks(pool, values.size(), [&](size_t i) { ++values[i]; });
  for (size_t value : values)
    EXPECT_EQ(value, 2000u);
  // Each task sums the writes of all threads.
  std::vector<size_t> sums(64, 0);
  runTasks(pool, sums.size(), [&](size_t i) {
    for (size_t value : values)
      sums[i] += value;
  });
  for (size_t sum : sums)
    EXPECT_EQ(sum, 64u * 2000u);
}

TEST(ThreadPoolTest, WakesThreadsThatSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    // Longer than idle threads spin before they sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (const std::atomic<int> &runs : countRuns(pool, 100))
      ASSERT_EQ(runs, 1);
  }
}

TEST(ThreadPoolTest, TakesLoopsOfSeveralThreads) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<size_t> total = 0;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        runTasks(pool, 10, [&](size_t) { ++total; });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(total, 4u * 200u * 10u);
}

TEST(ThreadPoolTest, RunsLoopsInLoops) {
  ThreadPool pool(2);
  std::atomic<size_t> total = 0;
  runTasks(pool, 4,
           [&](size_t) { runTasks(pool, 5, [&](size_t) { ++total; }); });
  EXPECT_EQ(total, 20u);
}

TEST(ThreadPoolTest, ChangesItsSize) {
  ThreadPool pool(2);
  for (unsigned threads : {5, 1, 3}) {
    pool.setNumThreads(threads);
    EXPECT_EQ(pool.getNumThreads(), threads);
    for (const std::atomic<int> &runs : countRuns(pool, 50))
      ASSERT_EQ(runs, 1);
  }
  EXPECT_THROW(pool.setNumThreads(1025), Failure);
}

namespace {

/// Sets FUSE_NUM_THREADS while it exists.
struct NumThreadsVariable {
  explicit NumThreadsVariable(const char *value) {
    ::setenv("FUSE_NUM_THREADS", value, 1);
  }
  ~NumThreadsVariable() { ::unsetenv("FUSE_NUM_THREADS"); }
};

} // namespace

TEST(ThreadPoolTest, ReadsTheEnvironment) {
  {
    NumThreadsVariable variable("3");
    EXPECT_EQ(ThreadPool::getDefaultThreads(), 3u);
    EXPECT_EQ(ThreadPool(0).getNumThreads(), 3u);
  }
  EXPECT_GE(ThreadPool::getDefaultThreads(), 1u);
  for (const char *bad : {"0", "-1", "two", "2x", "1025", "99999999999999"}) {
    NumThreadsVariable variable(bad);
    try {
      ThreadPool::getDefaultThreads();
      ADD_FAILURE() << bad;
    } catch (const Failure &failure) {
      EXPECT_EQ(failure.getMessage(), std::string("FUSE_NUM_THREADS is '") +
                                          bad + "', expected 1 to 1024");
    }
  }
}

TEST(ThreadPoolTest, IsSetThroughTheInterface) {
  uint32_t count = 0;
  ASSERT_EQ(fuse_set_num_threads(3), FUSE_OK);
  ASSERT_EQ(fuse_num_threads(&count), FUSE_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(fuse_set_num_threads(5000), FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(fuse_last_error(), "5000 threads, expected at most 1024");
  EXPECT_EQ(fuse_num_threads(nullptr), FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fuse_set_num_threads(0), FUSE_OK);
}

namespace {

std::atomic<int> numRegions = 0;
int teamSize = 0;

/// Stands for GOMP_parallel.
void runRegion(void (*body)(void *), void *data, unsigned count, unsigned) {
  ++numRegions;
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < count; ++i)
    threads.emplace_back(body, data);
  body(data);
  for (std::thread &thread : threads)
    thread.join();
}

int getTeamSize() { return teamSize; }

} // namespace

TEST(ThreadPoolTest, RunsLoopsOnATeamOfTheSameSize) {
  ThreadPool &pool = ThreadPool::get();
  pool.setNumThreads(3);
  EXPECT_EQ(fuse_set_team(runRegion, nullptr), FUSE_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(fuse_last_error(), "one of parallel and max_threads is null");
  ThreadPool::setTeam({runRegion, getTeamSize});
  auto countRegions = [&](ThreadPool &pool) {
    numRegions = 0;
    for (const std::atomic<int> &runs : countRuns(pool, 100))
      EXPECT_EQ(runs, 1);
    return int(numRegions);
  };
  teamSize = 3;
  int each = countRegions(pool);
  EXPECT_GT(each, 0);
  teamSize = 4;
  EXPECT_EQ(countRegions(pool), 0);
  teamSize = 3;
  ThreadPool other(3);
  EXPECT_EQ(countRegions(other), 0);
  EXPECT_EQ(countRegions(pool), each);

  // A forked process has its own threads.
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ThreadPool::get().setNumThreads(3);
    ::_exit(countRegions(ThreadPool::get()));
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);

  ThreadPool::setTeam({});
  EXPECT_EQ(countRegions(pool), 0);
  pool.setNumThreads(0);
}

/// A forked process has none of the threads.
TEST(ThreadPoolTest, SurvivesAFork) {
  ThreadPool::get().setNumThreads(2);
  countRuns(ThreadPool::get(), 10);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool all = true;
    for (const std::atomic<int> &runs : countRuns(ThreadPool::get(), 100))
      all &= runs == 1;
    ::_exit(all ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ThreadPool::get().setNumThreads(0);
}
