//===- GetFailure.h - Message of a failing call -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_UNITTESTS_RUNTIME_GETFAILURE_H
#define FUSE_UNITTESTS_RUNTIME_GETFAILURE_H

#include "fuse/Runtime/Core/Failure.h"

#include <string>

namespace fuse::test {

/// The message of the failure that `body` throws, or "".
template <typename Body>
std::string getFailure(Body body) {
  try {
    body();
    return "";
  } catch (const runtime::Failure &failure) {
    return failure.getMessage();
  }
}

} // namespace fuse::test

#endif // FUSE_UNITTESTS_RUNTIME_GETFAILURE_H
