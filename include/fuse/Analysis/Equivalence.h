//===- Equivalence.h - Compare two pieces of IR -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_EQUIVALENCE_H
#define FUSE_ANALYSIS_EQUIVALENCE_H

#include "mlir/IR/Operation.h"

namespace fuse {

/// Succeeds if `actual` equals `expected` up to SSA names: ops, order,
/// operands, types, attributes (discardable ones too) and locations. Otherwise
/// emits an error at `expected` that shows the first line that differs.
mlir::LogicalResult verifyIdentical(mlir::Operation *expected,
                                    mlir::Operation *actual);

} // namespace fuse

#endif // FUSE_ANALYSIS_EQUIVALENCE_H
