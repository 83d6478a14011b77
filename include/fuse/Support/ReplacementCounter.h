//===- ReplacementCounter.h - How many ops patterns replace -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_REPLACEMENTCOUNTER_H
#define FUSE_SUPPORT_REPLACEMENTCOUNTER_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

namespace fuse {

/// Adds the ops that are replaced while it listens to a statistic of a pass.
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
