//===- PTX.h - Kernels as PTX text ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_PTX_H
#define FUSE_TARGET_PTX_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fuse {

/// Registers the interfaces for compiling a `gpu.module` to PTX.
void registerPTXTranslation(mlir::DialectRegistry &registry);

/// The text of all `gpu.binary` ops with generated PTX in a module. It is empty
/// if all kernels are external. Emits an error if there is no kernel.
mlir::FailureOr<std::string> getPTX(mlir::ModuleOp module);

/// The chip of the target of a compiled object, such as "sm_90a". Empty if it
/// is not an NVIDIA target.
llvm::StringRef getTargetChip(mlir::Attribute target);

/// Whether a `gpu.binary` contains a file that a user registered as a kernel.
bool isExternalBinary(mlir::Operation *binary);

/// The launch plans of all functions, in the format of `fuse-emit-ptx`. Emits
/// an error if a plan is malformed.
mlir::FailureOr<llvm::json::Value> getLaunchPlans(mlir::ModuleOp module);

/// The `fuse.checks` of a function in the format of manifests. `getSymbol`
/// gives the symbol of a pair of argument and dimension, or null if there is
/// none. Checks that always hold are left out. Emits an error if the checks are
/// malformed.
mlir::FailureOr<llvm::json::Array>
getChecks(mlir::func::FuncOp function,
          llvm::function_ref<mlir::AffineExpr(int64_t, int64_t)> getSymbol);

/// The views of a packed weight in the format of manifests, or nothing if they
/// are not lists of `#tile.box`.
std::optional<llvm::json::Array> viewsToJSON(mlir::ArrayAttr views);

/// An expression over symbols in the format of launch plans: a number, a symbol
/// such as "s0", or [operator, left, right].
llvm::json::Value toJSON(mlir::AffineExpr expr);

} // namespace fuse

#endif // FUSE_TARGET_PTX_H
