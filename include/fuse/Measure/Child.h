//===- Child.h - Work in a process that may be lost -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process in which a kernel failed or hangs cannot go on. So a child does
// the work and its parent watches. CUDA does not survive a fork, which is why
// only children may load the driver.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_CHILD_H
#define FUSE_MEASURE_CHILD_H

#include "nlohmann/json.hpp"

#include <functional>

namespace fuse::measure {

/// How a child ended.
struct ChildEnd {
  /// It was killed because it said nothing for too long.
  bool wasSilent = false;
  /// As `waitpid` gives it.
  int status = 0;

  std::string describe() const;
};

/// Runs `body` in a child, and `receive` here on each message that it sends.
/// The child ends with `body`, without destructors of what is static: a kernel
/// that hangs would keep the driver from going.
ChildEnd runInChild(
    const std::function<
        void(const std::function<void(const nlohmann::json &)> &send)> &body,
    const std::function<void(const nlohmann::json &)> &receive, int silenceMs);

} // namespace fuse::measure

#endif // FUSE_MEASURE_CHILD_H
