//===- Concurrency.cpp - Tasks of some milliseconds on threads ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Concurrency.h"
#include "fuse/Runtime/Core/ThreadPool.h"

#include <algorithm>
#include <exception>
#include <system_error>

using namespace fuse::runtime;

void fuse::runtime::runConcurrently(size_t count,
                                    const std::function<void(size_t)> &task) {
  if (count == 1)
    return task(0);
  size_t most = std::min<size_t>(count, ThreadPool::getDefaultThreads());
  std::vector<std::exception_ptr> failures(count);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(most);
  try {
    while (threads.size() + 1 < most)
      threads.emplace_back(work);
  } catch (const std::system_error &) {
    // Continue with as many threads as the system allows.
  }
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (const std::exception_ptr &failure : failures)
    if (failure)
      std::rethrow_exception(failure);
}
