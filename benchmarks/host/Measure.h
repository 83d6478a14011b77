//===- Measure.h - Time of a piece of host code -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_BENCHMARKS_HOST_MEASURE_H
#define FUSE_BENCHMARKS_HOST_MEASURE_H

#include <chrono>
#include <functional>

/// Wall-clock time of `body` in milliseconds.
inline double measureMs(const std::function<void()> &body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - begin)
      .count();
}

#endif // FUSE_BENCHMARKS_HOST_MEASURE_H
