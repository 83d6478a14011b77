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

/// Runs `task(0)` to `task(count - 1)` and returns when all have finished. Uses
/// `ThreadPool::getDefaultThreads()` threads, including the calling one. The
/// other threads are new ones and end with the call, so the pool of the kernels
/// stays free. Rethrows the exception of the failed task with the lowest
/// number.
void runConcurrently(size_t count, const std::function<void(size_t)> &task);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_CONCURRENCY_H
