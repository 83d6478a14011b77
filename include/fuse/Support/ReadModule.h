//===- ReadModule.h - Modules in files --------------------------*- C++ -*-===//
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

/// The module in a file of text, `-` for standard input, that keeps the limits
/// of TextLimits.h. `sources` gets the text, so that a diagnostic handler on it
/// shows lines of it.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readModule(mlir::MLIRContext &context, llvm::StringRef path,
           llvm::SourceMgr &sources);

} // namespace fuse

#endif // FUSE_SUPPORT_READMODULE_H
