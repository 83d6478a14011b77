//===- Reducer.h - Reduce failing modules -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_REDUCE_REDUCER_H
#define FUSE_TOOLS_FUSE_REDUCE_REDUCER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fuse {

/// Limits and statistics of a reduction.
struct Reduction {
  uint64_t maxTries = 2000;
  double maxSeconds = 300;
  uint64_t tries = 0, steps = 0;
};

/// Reduces a module as long as it is interesting. It removes ops, results and
/// arguments, replaces ops by arguments, inlines regions, drops attributes and
/// locations, and shrinks sizes. Only valid modules are tried. The result is
/// interesting, or the original module.
mlir::OwningOpRef<mlir::ModuleOp>
reduceModule(mlir::ModuleOp module,
             llvm::function_ref<bool(mlir::ModuleOp)> isInteresting,
             Reduction &reduction);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_REDUCE_REDUCER_H
