//===- FuseInterfaces.h - Interfaces of fuse ops ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEINTERFACES_H
#define FUSE_IR_FUSEINTERFACES_H

#include "fuse/IR/FuseAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace fuse {

/// The unfused chain of a fused op.
struct Decomposition {
  /// The members in canonical order, parallel to `names`.
  llvm::SmallVector<mlir::Operation *> members;
  /// Role of each member: `residual`, `norm`, `quantize_input`, `gate`, ... .
  /// Provenance refers to members by their roles.
  llvm::SmallVector<ChainMember> names;
  /// The replacements of the results of the fused op.
  llvm::SmallVector<mlir::Value> results;
};

} // namespace fuse

#include "fuse/IR/FuseInterfaces.h.inc"

#endif // FUSE_IR_FUSEINTERFACES_H
