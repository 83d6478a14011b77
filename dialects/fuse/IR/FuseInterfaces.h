//===- FuseInterfaces.h - Interfaces of fuse ops ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEINTERFACES_H
#define FUSE_IR_FUSEINTERFACES_H

#include "fuse/IR/FuseAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace fuse {

/// The unfused chain of a fused op.
struct Decomposition {
  /// The members in canonical order. `names` runs parallel to it.
  llvm::SmallVector<mlir::Operation *> members;
  /// Name of each member: `residual`, `norm`, `quantize_input`, `gate`, ...
  /// Names tell members of one chain apart and appear in provenance.
  llvm::SmallVector<llvm::StringLiteral> names;
  /// What replaces each result of the fused op.
  llvm::SmallVector<mlir::Value> results;
};

} // namespace fuse

#include "fuse/IR/FuseInterfaces.h.inc"

#endif // FUSE_IR_FUSEINTERFACES_H
