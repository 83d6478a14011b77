//===- Failure.h - Errors of the runtime ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_FAILURE_H
#define FUSE_RUNTIME_CORE_FAILURE_H

#include "fuse-c/Status.h"

#include <exception>
#include <string>
#include <utility>

namespace fuse::runtime {

/// Exception thrown by everything below the C interface, which turns it into a
/// status and a message.
class Failure : public std::exception {
public:
  Failure(fuse_status status, std::string message)
      : status(status), message(std::move(message)) {}

  fuse_status getStatus() const { return status; }
  const std::string &getMessage() const { return message; }
  const char *what() const noexcept override { return message.c_str(); }

private:
  fuse_status status;
  std::string message;
};

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_FAILURE_H
