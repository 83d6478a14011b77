//===- ModuleInliner.h - Copy forwards into one function --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_MODULES_MODULEINLINER_H
#define FUSE_TRANSFORMS_MODULES_MODULEINLINER_H

#include "fuse/Transforms/ModuleFusion.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/DenseMap.h"

namespace fuse {

/// Copies forwards, and the forwards that they call, to the end of a function.
/// Parameters become arguments after the existing ones. The location of each op
/// names the path of its module. Kernels read their origins from these
/// locations.
class ModuleInliner {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  /// How the arguments for parameters name them: as in checkpoints, or as
  /// symbols of the model, next to which the function must stand.
  enum class ParameterNames { Checkpoint, Symbols };

  ModuleInliner(mlir::SymbolTableCollection &tables,
                mlir::func::FuncOp function,
                ParameterNames names = ParameterNames::Checkpoint)
      : tables(tables), function(function), names(names),
        builder(mlir::OpBuilder::atBlockEnd(&function.getBody().front())),
        parameterAttrName(builder.getStringAttr(kParameterAttrName)) {}

  /// Appends the forward of a model or module. Returns its results.
  llvm::FailureOr<Values> inlineForward(mlir::Operation *module,
                                        llvm::ArrayRef<mlir::Value> args);
  /// Appends the body of a fused call, or the forwards of its members if it has
  /// no body.
  llvm::FailureOr<Values> inlineFusedCall(FusedCallOp call,
                                          llvm::ArrayRef<mlir::Value> operands);
  /// Appends the forwards of the members, even if the fused call has a body.
  llvm::FailureOr<Values> inlineMembers(FusedCallOp call,
                                        llvm::ArrayRef<mlir::Value> operands);
  /// Ends the function and updates its type.
  void finish(mlir::ValueRange results);

private:
  llvm::LogicalResult copy(mlir::Operation &op, mlir::StringAttr path,
                           mlir::IRMapping &mapping);
  llvm::LogicalResult copyRegions(mlir::Operation &op, mlir::Operation *clone,
                                  mlir::StringAttr path,
                                  mlir::IRMapping &mapping);
  /// The argument for the parameter `name`; adds it if it does not exist.
  mlir::Value getParameter(mlir::Attribute name, mlir::Type type,
                           ShardAttr shard, mlir::Location loc);
  /// The name of a parameter that is read in the module at `path`.
  mlir::Attribute nameParameter(ParameterOp owner, mlir::Operation *module,
                                mlir::StringAttr path);

  mlir::SymbolTableCollection &tables;
  mlir::func::FuncOp function;
  ParameterNames names;
  mlir::OpBuilder builder;
  mlir::StringAttr parameterAttrName;
  llvm::SmallDenseMap<mlir::Attribute, mlir::Value, 8> parameters;
  /// Attributes of the arguments that were added for parameters, in order.
  llvm::SmallVector<mlir::DictionaryAttr> parameterAttrs;
};

/// Builds a detached function that computes the combined results of `calls`,
/// which are in one block. Returns null without an error if a call cannot be
/// inlined.
mlir::OwningOpRef<mlir::func::FuncOp>
inlineCalls(mlir::SymbolTableCollection &tables,
            llvm::ArrayRef<CallModuleOp> calls, llvm::StringRef name);

} // namespace fuse

#endif // FUSE_TRANSFORMS_MODULES_MODULEINLINER_H
