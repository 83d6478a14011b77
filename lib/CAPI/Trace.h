//===- Trace.h - Where the time of a context goes ---------------*- C++ -*-===//
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

/// Writes the passes and phases of contexts to a file while it lives.
class Trace {
public:
  /// Outcome of writing the file, once the trace is destroyed. Kernels that are
  /// compiled on other threads may keep the trace a little longer than its
  /// context.
  struct Outcome {
    explicit Outcome(llvm::StringRef path) : path(path) {}
    std::string path;
    std::atomic<int> error = 0;
  };

  Trace(llvm::StringRef path, std::error_code &error);
  ~Trace();

  /// Traces a context, which must not outlive this unless it is detached.
  void attach(mlir::MLIRContext &context);

  std::shared_ptr<const Outcome> getOutcome() const { return outcome; }

private:
  /// Leaves out the single patterns that passes apply.
  struct Profiler : mlir::tracing::ActionProfiler {
    using ActionProfiler::ActionProfiler;
    void beforeExecute(const mlir::tracing::ActionActiveStack *action,
                       mlir::tracing::Breakpoint *breakpoint,
                       bool willExecute) override;
    void afterExecute(const mlir::tracing::ActionActiveStack *action) override;
  };

  std::shared_ptr<Outcome> outcome;
  llvm::raw_fd_ostream os;
  /// Ends the list in the file when it goes.
  std::optional<Profiler> profiler;
  mlir::tracing::ExecutionContext execution;
};

} // namespace fuse

#endif // FUSE_CAPI_TRACE_H
