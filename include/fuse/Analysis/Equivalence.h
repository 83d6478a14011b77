//===- Equivalence.h - Whether two pieces of IR are the same ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_EQUIVALENCE_H
#define FUSE_ANALYSIS_EQUIVALENCE_H

#include "mlir/IR/Operation.h"

namespace fuse {

/// Whether `actual` is `expected` up to SSA names: ops, order, operands,
/// types, attributes (discardable ones too) and locations. When not, emits an
/// error at `expected` that shows the first line in which they differ.
mlir::LogicalResult verifyIdentical(mlir::Operation *expected,
                                    mlir::Operation *actual);

} // namespace fuse

#endif // FUSE_ANALYSIS_EQUIVALENCE_H
