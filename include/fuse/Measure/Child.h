//===- Child.h - Work in a child process that may fail ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process cannot recover from a kernel that fails or hangs. A child process
// therefore does the work while its parent watches. CUDA does not survive a
// fork, which is why only children may load the driver.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_CHILD_H
#define FUSE_MEASURE_CHILD_H

#include "nlohmann/json.hpp"

#include <functional>

namespace fuse::measure {

/// The end of a child process.
struct ChildEnd {
  /// Whether it was killed because it sent no message for too long.
  bool wasSilent = false;
  /// Status from `waitpid`.
  int status = 0;

  std::string describe() const;
};

/// Runs `body` in a child process, and calls `receive` here for each of its
/// messages. The child exits after `body` without running static destructors,
/// because a kernel that hangs would block those of the driver.
ChildEnd runInChild(
    const std::function<
        void(const std::function<void(const nlohmann::json &)> &send)> &body,
    const std::function<void(const nlohmann::json &)> &receive, int silenceMs);

} // namespace fuse::measure

#endif // FUSE_MEASURE_CHILD_H
