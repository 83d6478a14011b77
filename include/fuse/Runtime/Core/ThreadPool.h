//===- ThreadPool.h - Threads that share the tasks of a loop ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_THREADPOOL_H
#define FUSE_RUNTIME_CORE_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace fuse::runtime {

/// Functions of a library for OpenMP, whose threads run loops in place of those
/// of the pool.
struct ThreadTeam {
  /// Calls `body` once on each of `count` threads, this one included.
  void (*parallel)(void (*body)(void *), void *context, unsigned count,
                   unsigned flags) = nullptr;
  /// Number of threads of a team that this thread starts.
  int (*maxThreads)() = nullptr;
};

/// Runs loops with independent iterations. The calling thread participates.
/// Idle threads spin for some microseconds, because the next phase of a kernel
/// usually follows at once, and then sleep.
class ThreadPool {
public:
  /// Maximum number of threads in a pool.
  static constexpr unsigned kMaxThreads = 1024;

  /// Runs the tasks in [first, last).
  using Body = void (*)(void *context, size_t first, size_t last);

  /// 0 stands for `getDefaultThreads()`.
  explicit ThreadPool(unsigned numThreads = 0);
  ~ThreadPool();

  /// The pool of this process. A forked process gets a new one.
  static ThreadPool &get();
  /// FUSE_NUM_THREADS, or the number of processors that this process may use.
  /// Throws `Failure` if the variable is not a valid number.
  static unsigned getDefaultThreads();

  /// Number of threads that run a loop, including the caller of `run`.
  unsigned getNumThreads() const { return numThreads; }
  /// Waits for a running loop. 0 stands for the default.
  void setNumThreads(unsigned count);

  /// Lets the pool of the process run loops on the threads of a library for
  /// OpenMP, as long as it has the same number of them. Threads of two
  /// libraries that wait by spinning would take processors from each other. A
  /// forked process does not have the threads, and the library may not notice.
  /// Both functions may be null.
  static void setTeam(ThreadTeam team);

  /// Runs every task once and returns when all have finished. If called from a
  /// loop, or while another thread runs one, the calling thread runs all tasks.
  /// Does not allocate.
  void run(size_t numTasks, Body body, void *context);

private:
  void start(unsigned count);
  void stop();
  void work();
  /// Runs tasks until none is left.
  void takeTasks();
  /// Whether there is a loop other than that of generation `seen`.
  bool hasWork(uint64_t word, uint32_t seen) const;

  /// The function that runs a loop on the team of the process, or null.
  decltype(ThreadTeam::parallel) getTeam() const;

  std::atomic<unsigned> numThreads = 1;
  /// Whether this is the pool of the process.
  bool isShared = false;
  std::vector<std::thread> workers;
  /// Held by the thread whose loop runs.
  std::mutex running;

  // The current loop. It changes only while no worker is in it.
  size_t numTasks = 0;
  Body body = nullptr;
  void *context = nullptr;
  alignas(64) std::atomic<size_t> nextTask = 0;
  /// Generation of the loop (upper half), whether workers may enter it (bit
  /// 31), and the number of workers in it. Sleeping workers are not waited for.
  alignas(64) std::atomic<uint64_t> state = 0;

  std::mutex sleepMutex;
  std::condition_variable wakeUp;
  std::atomic<unsigned> numSleeping = 0;
  std::atomic<bool> stopping = false;
};

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_THREADPOOL_H
