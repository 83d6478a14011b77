//===- Concurrency.h - Tasks of some milliseconds on threads ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_CONCURRENCY_H
#define FUSE_RUNTIME_CORE_CONCURRENCY_H

#include <cstddef>
#include <functional>

namespace fuse::runtime {

/// Runs `task(0)` to `task(count - 1)` and returns when all have finished, on
/// as many threads as `ThreadPool::getDefaultThreads()`, this one among them.
/// The threads are new ones: the pool of kernels stays free, and nothing is
/// left behind. Throws what the first of the tasks that failed has thrown.
void runConcurrently(size_t count, const std::function<void(size_t)> &task);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_CONCURRENCY_H
