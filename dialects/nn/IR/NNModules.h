//===- NNModules.h - Walk the module tree -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNMODULES_H
#define NN_IR_NNMODULES_H

#include "fuse/IR/FuseAttrNames.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "nn/IR/NNOps.h"

namespace fuse {

/// Attribute of a module that refers to its private forward. It is not printed.
inline constexpr llvm::StringLiteral kForwardUseAttrName = "nn.forward";

/// Name of the function that a call of a module runs.
inline constexpr llvm::StringLiteral kForwardName = "forward";
/// Names of functions: the eager body of a slot, and the body of a kernel.
inline constexpr llvm::StringLiteral kEagerName = "eager";
inline constexpr llvm::StringLiteral kBodyName = "body";

/// A reference to the private forward of a module, or null. Calls name the
/// module, so nothing else refers to it, and passes erase private symbols
/// without uses.
mlir::SymbolRefAttr getForwardUse(mlir::StringAttr module, mlir::Region &body);

/// The closest model or module that contains `op`, or null. Never `op` itself.
mlir::Operation *getEnclosingModule(mlir::Operation *op);

/// Dotted path of a module below its model; empty for the model.
std::string getModulePath(mlir::Operation *module);

/// The models inside `root`, in order. Functions contain no models and are
/// skipped.
llvm::SmallVector<ModelOp> findModels(mlir::Operation *root);

/// Visits the fused calls in a model or module in program order, until a visit
/// fails. Modules without children contain no calls and are skipped.
llvm::LogicalResult
walkFusedCalls(mlir::Operation *module,
               llvm::function_ref<llvm::LogicalResult(FusedCallOp)> visit);

/// The symbol `name` in a model, module or slot, or null. Uses `tables` only if
/// there are many symbols.
mlir::Operation *lookupSymbol(mlir::SymbolTableCollection &tables,
                              mlir::Operation *scope, mlir::StringAttr name);
mlir::Operation *lookupSymbol(mlir::SymbolTableCollection &tables,
                              mlir::Operation *scope, mlir::SymbolRefAttr name);

/// The forward of a module or model, or null.
mlir::FunctionOpInterface getForward(mlir::SymbolTableCollection &tables,
                                     mlir::Operation *module);

/// Whether a function has one block that ends in a return of its results, so
/// that calls can be inlined.
bool returnsResults(mlir::FunctionOpInterface function);

/// The parameter with the checkpoint name `name` in `model`, or null.
ParameterOp lookupParameter(mlir::SymbolTableCollection &tables, ModelOp model,
                            llvm::StringRef name);

/// The parameter that `name` refers to below a model or module, or null.
ParameterOp lookupParameter(mlir::SymbolTableCollection &tables,
                            mlir::Operation *scope, mlir::SymbolRefAttr name);

/// The name of a parameter in checkpoints: the path of its module and its name.
std::string getParameterName(ParameterOp parameter);

/// The reference to `symbol` relative to `scope`, a model or module around it.
mlir::SymbolRefAttr getReference(mlir::Operation *scope,
                                 mlir::Operation *symbol);

/// The checkpoint name in a `fuse.parameter` attribute, which is a name or,
/// next to a model, a symbol of that model. Empty for null.
std::string getParameterName(mlir::Attribute attr);
/// The checkpoint name of the parameter that an argument represents, or empty.
std::string getParameterName(mlir::FunctionOpInterface function,
                             unsigned argument);

/// The parameter that `parameter` is tied to, or itself.
ParameterOp getOwner(mlir::SymbolTableCollection &tables,
                     ParameterOp parameter);

/// The module that `name` refers to in the forward that contains `user`, or
/// null.
NetModuleOp lookupModule(mlir::SymbolTableCollection &tables,
                         mlir::Operation *user, mlir::SymbolRefAttr name);

/// The calls of the other members of a site, in the order of the chain; null
/// for a missing call.
llvm::SmallVector<IdentityCallOp> getIdentities(FusedCallOp call);

/// Number of arguments that a call of `forward` must pass: all except trailing
/// arguments with defaults.
unsigned getNumRequiredArguments(mlir::FunctionOpInterface forward);

/// Verifies that an axis of tensor parallelism has one size in a model, and
/// that modules agree with the shards of their parameters.
llvm::LogicalResult verifyParallelism(ModelOp model);

/// The slot that `name` refers to at `user`, or null: the first one in the
/// symbol tables around `user`, innermost first.
SlotOp lookupSlot(mlir::SymbolTableCollection &tables, mlir::Operation *user,
                  mlir::SymbolRefAttr name);

} // namespace fuse

#endif // NN_IR_NNMODULES_H
