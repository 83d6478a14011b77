//===- Reducer.h - Make failing modules smaller -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_REDUCE_REDUCER_H
#define FUSE_TOOLS_FUSE_REDUCE_REDUCER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fuse {

/// When to stop, and what was done.
struct Reduction {
  uint64_t maxTries = 2000;
  double maxSeconds = 300;
  uint64_t tries = 0, steps = 0;
};

/// Makes a module smaller as long as it is interesting: leaves out ops,
/// results and arguments, makes arguments of what an op computes, opens
/// regions, forgets attributes and locations, and makes sizes smaller. Only
/// valid modules are tried. The result is interesting, or the module as it was.
mlir::OwningOpRef<mlir::ModuleOp>
reduceModule(mlir::ModuleOp module,
             llvm::function_ref<bool(mlir::ModuleOp)> isInteresting,
             Reduction &reduction);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_REDUCE_REDUCER_H
