//===- PTX.h - Kernels as PTX text ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_PTX_H
#define FUSE_TARGET_PTX_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fuse {

/// Registers what compiling a `gpu.module` to PTX needs in a context.
void registerPTXTranslation(mlir::DialectRegistry &registry);

/// The text of all `gpu.binary` ops of a module that hold generated PTX, which
/// may be empty where all kernels are external. Reports an error when there is
/// no kernel.
mlir::FailureOr<std::string> getPTX(mlir::ModuleOp module);

/// The chip of the target of a compiled object, such as "sm_90a"; empty for a
/// target that is not of NVIDIA's.
llvm::StringRef getTargetChip(mlir::Attribute target);

/// Whether a `gpu.binary` is a file that a user registered as a kernel.
bool isExternalBinary(mlir::Operation *binary);

/// The launch plans of all functions, in the form of `fuse-emit-ptx`. Reports
/// an error when a plan is malformed.
mlir::FailureOr<llvm::json::Value> getLaunchPlans(mlir::ModuleOp module);

/// An expression over symbols as launch plans have it: a number, a symbol such
/// as "s0", or [operator, left, right].
llvm::json::Value toJSON(mlir::AffineExpr expr);

} // namespace fuse

#endif // FUSE_TARGET_PTX_H
