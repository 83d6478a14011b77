//===- ThreadPool.cpp - Threads that share the tasks of a loop ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/ThreadPool.h"
#include "fuse/Runtime/Core/Failure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>

#include <pthread.h>
#include <sched.h>

using namespace fuse::runtime;

static constexpr uint64_t kOpen = uint64_t(1) << 31;
static constexpr uint64_t kCountMask = kOpen - 1;
/// Time that an idle worker spins for the next loop before it sleeps.
static constexpr std::chrono::microseconds kSpinTime(100);

static uint32_t getGeneration(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

//===----------------------------------------------------------------------===//
// The pool of this process
//===----------------------------------------------------------------------===//

/// Never destroyed: other static objects may still launch something.
static std::atomic<ThreadPool *> processPool = nullptr;
static std::mutex processMutex;
/// The functions of the team. They are set one after the other, and `parallel`
/// last.
static std::atomic<decltype(ThreadTeam::parallel)> teamParallel = nullptr;
static std::atomic<decltype(ThreadTeam::maxThreads)> teamMaxThreads = nullptr;

ThreadPool &ThreadPool::get() {
  if (ThreadPool *pool = processPool.load(std::memory_order_acquire))
    return *pool;
  std::lock_guard<std::mutex> lock(processMutex);
  ThreadPool *pool = processPool.load(std::memory_order_acquire);
  if (!pool) {
    pool = new ThreadPool;
    pool->isShared = true;
    // Threads do not survive a fork, and the locks that they held stay locked.
    static int registered = ::pthread_atfork(nullptr, nullptr, [] {
      processPool.store(nullptr);
      teamParallel.store(nullptr);
    });
    (void)registered;
    processPool.store(pool, std::memory_order_release);
  }
  return *pool;
}

void ThreadPool::setTeam(ThreadTeam team) {
  // The handler of forks exists from here on.
  (void)get();
  teamParallel.store(nullptr);
  teamMaxThreads.store(team.maxThreads);
  if (team.maxThreads)
    teamParallel.store(team.parallel);
}

decltype(ThreadTeam::parallel) ThreadPool::getTeam() const {
  auto parallel = isShared ? teamParallel.load() : nullptr;
  bool fits =
      parallel && teamMaxThreads.load()() == static_cast<int>(numThreads);
  return fits ? parallel : nullptr;
}

unsigned ThreadPool::getDefaultThreads() {
  if (const char *text = std::getenv("FUSE_NUM_THREADS"); text && *text) {
    char *end;
    errno = 0;
    long count = std::strtol(text, &end, 10);
    if (*end || errno || count < 1 || count > long(kMaxThreads))
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    std::string("FUSE_NUM_THREADS is '") + text +
                        "', expected 1 to " + std::to_string(kMaxThreads));
    return static_cast<unsigned>(count);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more processors than the set has room for.
  if (::sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
    return std::min<unsigned>(CPU_COUNT(&set), kMaxThreads);
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

ThreadPool::ThreadPool(unsigned count) {
  start(count ? count : getDefaultThreads());
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::start(unsigned count) {
  stopping = false;
  workers.reserve(count - 1);
  try {
    while (workers.size() + 1 < count)
      workers.emplace_back([this] { work(); });
  } catch (const std::system_error &) {
    // Continue with as many threads as the system allows.
  }
  numThreads = static_cast<unsigned>(workers.size()) + 1;
}

void ThreadPool::stop() {
  {
    std::lock_guard<std::mutex> lock(sleepMutex);
    stopping = true;
  }
  wakeUp.notify_all();
  for (std::thread &worker : workers)
    worker.join();
  workers.clear();
}

void ThreadPool::setNumThreads(unsigned count) {
  if (count > kMaxThreads)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  std::to_string(count) + " threads, expected at most " +
                      std::to_string(kMaxThreads));
  if (count == 0)
    count = getDefaultThreads();
  std::lock_guard<std::mutex> lock(running);
  if (count == numThreads)
    return;
  stop();
  start(count);
}

bool ThreadPool::hasWork(uint64_t word, uint32_t seen) const {
  return stopping || ((word & kOpen) && getGeneration(word) != seen);
}

void ThreadPool::work() {
  using Clock = std::chrono::steady_clock;
  uint32_t seen = 0;
  while (true) {
    uint64_t word = state.load();
    auto deadline = Clock::now() + kSpinTime;
    for (unsigned count = 1; !hasWork(word, seen); ++count) {
      pause();
      word = state.load();
      if (count % 64 != 0 || Clock::now() < deadline)
        continue;
      std::unique_lock<std::mutex> lock(sleepMutex);
      // The thread that starts a loop reads this after it has written the
      // state.
      ++numSleeping;
      wakeUp.wait(lock, [&] { return hasWork(word = state.load(), seen); });
      --numSleeping;
    }
    if (stopping)
      return;
    if (!state.compare_exchange_weak(word, word + 1))
      continue;
    seen = getGeneration(word);
    takeTasks();
    state.fetch_sub(1);
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void ThreadPool::takeTasks() {
  size_t share = 2 * size_t(numThreads);
  size_t first = nextTask.load(std::memory_order_relaxed);
  while (first < numTasks) {
    // Assign large parts first, since their memory is contiguous. Small parts
    // at the end make all threads finish at about the same time.
    size_t count = std::max<size_t>(1, (numTasks - first) / share);
    if (!nextTask.compare_exchange_weak(first, first + count,
                                        std::memory_order_relaxed))
      continue;
    body(context, first, first + count);
    first = nextTask.load(std::memory_order_relaxed);
  }
}

void ThreadPool::run(size_t count, Body function, void *argument) {
  if (count == 0)
    return;
  std::unique_lock<std::mutex> lock(running, std::defer_lock);
  // A thread inside a loop of this pool already holds the mutex.
  thread_local bool isInside = false;
  if (count == 1 || numThreads == 1 || isInside || !lock.try_lock())
    return function(argument, 0, count);
  isInside = true;
  numTasks = count;
  body = function;
  context = argument;
  nextTask.store(0, std::memory_order_relaxed);
  if (auto parallel = getTeam()) {
    auto takeAll = [](void *pool) {
      static_cast<ThreadPool *>(pool)->takeTasks();
    };
    parallel(takeAll, this, numThreads, /*flags=*/0);
    isInside = false;
    return;
  }
  uint64_t generation = getGeneration(state.load()) + uint64_t(1);
  if (generation > UINT32_MAX)
    generation = 1;
  state.store(generation << 32 | kOpen);
  if (numSleeping.load() > 0) {
    // Lock, since a worker holds the mutex between its last check and its
    // sleep.
    {
      std::lock_guard<std::mutex> sleepLock(sleepMutex);
    }
    wakeUp.notify_all();
  }
  takeTasks();
  state.fetch_and(~kOpen);
  for (unsigned spins = 0; state.load() & kCountMask; ++spins) {
    if (spins < 4096)
      pause();
    else
      ::sched_yield();
  }
  isInside = false;
}
