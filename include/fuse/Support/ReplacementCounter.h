//===- ReplacementCounter.h - Count replaced ops ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_REPLACEMENTCOUNTER_H
#define FUSE_SUPPORT_REPLACEMENTCOUNTER_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

namespace fuse {

/// Counts replaced ops in a statistic of a pass while it is the listener.
class ReplacementCounter : public mlir::RewriterBase::Listener {
public:
  explicit ReplacementCounter(mlir::Pass::Statistic &count) : count(count) {}

  void notifyOperationReplaced(mlir::Operation *op,
                               mlir::ValueRange results) override {
    ++count;
  }

private:
  mlir::Pass::Statistic &count;
};

} // namespace fuse

#endif // FUSE_SUPPORT_REPLACEMENTCOUNTER_H
