//===- ModuleInliner.h - Copy forwards into one function --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_MODULES_MODULEINLINER_H
#define FUSE_TRANSFORMS_MODULES_MODULEINLINER_H

#include "fuse/IR/FuseModules.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"

namespace fuse {

/// Copies forwards, and the forwards that they call, to the end of a function.
/// Parameters become arguments behind those that the function has. Every op is
/// located by the path of the module it came from, which is how a kernel
/// learns its origins.
class ModuleInliner {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  ModuleInliner(mlir::SymbolTableCollection &tables,
                mlir::func::FuncOp function)
      : tables(tables), function(function),
        builder(mlir::OpBuilder::atBlockEnd(&function.getBody().front())),
        parameterAttrName(builder.getStringAttr(kParameterAttrName)) {}

  /// Appends the forward of a model or module. Returns its results.
  llvm::FailureOr<Values> inlineForward(mlir::Operation *module,
                                        llvm::ArrayRef<mlir::Value> args);
  /// Appends what a fused call computes: its body, or its members one after
  /// the other.
  llvm::FailureOr<Values> inlineFusedCall(FusedCallOp call,
                                          llvm::ArrayRef<mlir::Value> operands);
  /// The members of a fused call, whether it has a body or not.
  llvm::FailureOr<Values> inlineMembers(FusedCallOp call,
                                        llvm::ArrayRef<mlir::Value> operands);
  /// Ends the function and gives it the type that it has by then.
  void finish(mlir::ValueRange results);

private:
  llvm::LogicalResult copy(mlir::Operation &op, mlir::StringAttr path,
                           mlir::IRMapping &mapping);
  llvm::LogicalResult copyRegions(mlir::Operation &op, mlir::Operation *clone,
                                  mlir::StringAttr path,
                                  mlir::IRMapping &mapping);
  /// The argument that stands for the parameter of this name.
  mlir::Value getParameter(mlir::StringAttr name, mlir::Type type,
                           mlir::Location loc);

  mlir::SymbolTableCollection &tables;
  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  mlir::StringAttr parameterAttrName;
  llvm::SmallDenseMap<mlir::StringAttr, mlir::Value, 8> parameters;
  /// Of the arguments that stand for parameters, in their order.
  llvm::SmallVector<mlir::DictionaryAttr> parameterAttrs;
};

/// A function that stands nowhere and computes what `calls`, which stand in one
/// block, compute together. Null when that cannot be said, without an error.
mlir::OwningOpRef<mlir::func::FuncOp>
inlineCalls(mlir::SymbolTableCollection &tables,
            llvm::ArrayRef<CallModuleOp> calls, llvm::StringRef name);

} // namespace fuse

#endif // FUSE_TRANSFORMS_MODULES_MODULEINLINER_H
