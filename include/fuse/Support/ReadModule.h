//===- ReadModule.h - Read modules from files -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_READMODULE_H
#define FUSE_SUPPORT_READMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace fuse {

/// Reads a module from a text file, or from standard input for `-`, within the
/// limits of TextLimits.h. The text is added to `sources`, so that diagnostic
/// handlers can show its lines.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readModule(mlir::MLIRContext &context, llvm::StringRef path,
           llvm::SourceMgr &sources);

} // namespace fuse

#endif // FUSE_SUPPORT_READMODULE_H
