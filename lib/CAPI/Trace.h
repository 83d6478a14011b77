//===- Trace.h - Compile-time traces of a context ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CAPI_TRACE_H
#define FUSE_CAPI_TRACE_H

#include "mlir/Debug/ExecutionContext.h"
#include "mlir/Debug/Observers/ActionProfiler.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace fuse {

/// Writes the passes and phases of contexts to a file while the object exists.
class Trace {
public:
  /// Result of writing the file, valid once the trace is destroyed. Kernels
  /// that are compiled on other threads may keep the trace alive a little
  /// longer than its context.
  struct Outcome {
    explicit Outcome(llvm::StringRef path) : path(path) {}
    std::string path;
    std::atomic<int> error = 0;
  };

  Trace(llvm::StringRef path, std::error_code &error);
  ~Trace();

  /// Traces a context, which must be detached or destroyed before this object.
  void attach(mlir::MLIRContext &context);

  std::shared_ptr<const Outcome> getOutcome() const { return outcome; }

private:
  /// Omits the individual patterns that passes apply.
  struct Profiler : mlir::tracing::ActionProfiler {
    using ActionProfiler::ActionProfiler;
    void beforeExecute(const mlir::tracing::ActionActiveStack *action,
                       mlir::tracing::Breakpoint *breakpoint,
                       bool willExecute) override;
    void afterExecute(const mlir::tracing::ActionActiveStack *action) override;
  };

  std::shared_ptr<Outcome> outcome;
  llvm::raw_fd_ostream os;
  /// Its destructor completes the list in the file.
  std::optional<Profiler> profiler;
  mlir::tracing::ExecutionContext execution;
};

} // namespace fuse

#endif // FUSE_CAPI_TRACE_H
