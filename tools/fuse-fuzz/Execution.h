//===- Execution.h - Run random modules -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H
#define FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H

#include "Checks.h"

namespace fuse {

/// Runs every function of `module` on random tensors, fused and unfused, and by
/// the optimized and the reference lowering. Fused and unfused must give the
/// same bits; the two lowerings may differ by the order of sums. Returns the
/// name of the first check that fails, after an error has been emitted.
llvm::StringRef checkExecution(mlir::ModuleOp module, Random &random,
                               CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H
