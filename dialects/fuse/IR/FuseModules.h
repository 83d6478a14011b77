//===- FuseModules.h - Walk the module tree ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEMODULES_H
#define FUSE_IR_FUSEMODULES_H

#include "fuse/IR/FuseOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fuse {

/// Name of the function that a call of a module runs.
inline constexpr llvm::StringLiteral kForwardName = "forward";
/// Names in a slot and in its kernels: what the slot means, and a kernel's
/// function.
inline constexpr llvm::StringLiteral kEagerName = "eager";
inline constexpr llvm::StringLiteral kBodyName = "body";
/// Attribute of an argument of a forward: the value that a call may leave out.
inline constexpr llvm::StringLiteral kDefaultAttrName = "fuse.default";
/// Attributes of a model, see `fuse.model`.
inline constexpr llvm::StringLiteral kMustFuseAttrName = "fuse.must_fuse";
inline constexpr llvm::StringLiteral kExpectSitesAttrName = "fuse.expect_sites";
inline constexpr llvm::StringLiteral kNoFuseAttrName = "fuse.no_fuse";
/// Attribute of a model: why sites were refused, by site id. Matching writes
/// it, `fuse-check-contracts` reads it, a whole unfuse removes it.
inline constexpr llvm::StringLiteral kRefusalsAttrName = "fuse.refusals";

/// The model or module around `op`, or null. `op` itself does not count.
mlir::Operation *getEnclosingModule(mlir::Operation *op);

/// Dotted path of a module below its model; empty for the model.
std::string getModulePath(mlir::Operation *module);

/// The models inside `root`, in order. Functions hold none.
llvm::SmallVector<ModelOp> findModels(mlir::Operation *root);

/// Visits the fused calls in a model or module in the order of the text, until
/// one fails. Modules without children call none and are not looked into.
llvm::LogicalResult
walkFusedCalls(mlir::Operation *module,
               llvm::function_ref<llvm::LogicalResult(FusedCallOp)> visit);

/// The symbol `name` in a model, module or slot, or null. Asks `tables` only
/// where there are many symbols.
mlir::Operation *lookupSymbol(mlir::SymbolTableCollection &tables,
                              mlir::Operation *scope, mlir::StringAttr name);
mlir::Operation *lookupSymbol(mlir::SymbolTableCollection &tables,
                              mlir::Operation *scope, mlir::SymbolRefAttr name);

/// The forward of a module or model, or null.
mlir::FunctionOpInterface getForward(mlir::SymbolTableCollection &tables,
                                     mlir::Operation *module);

/// Whether a function of one block gives its results at the end of it, so that
/// a call can be replaced by what is in the block.
bool returnsResults(mlir::FunctionOpInterface function);

/// The parameter called `name` in a checkpoint of `model`, or null.
ParameterOp lookupParameter(mlir::SymbolTableCollection &tables, ModelOp model,
                            llvm::StringRef name);

/// What a checkpoint calls a parameter: the path of its module and its name.
std::string getParameterName(ParameterOp parameter);

/// The parameter that `parameter` is tied to, or itself.
ParameterOp getOwner(mlir::SymbolTableCollection &tables,
                     ParameterOp parameter);

/// The module that `name` means in the forward that contains `user`, or null.
NetModuleOp lookupModule(mlir::SymbolTableCollection &tables,
                         mlir::Operation *user, mlir::SymbolRefAttr name);

/// The calls of the other members of a site, in the order of the chain; null
/// where one is missing.
llvm::SmallVector<IdentityCallOp> getIdentities(FusedCallOp call);

/// How many arguments a call of `forward` must pass: those in front of the
/// trailing ones that have defaults.
unsigned getNumRequiredArguments(mlir::FunctionOpInterface forward);

/// The slot that `name` means where `user` stands, or null: the innermost one
/// in the symbol tables around `user`.
SlotOp lookupSlot(mlir::SymbolTableCollection &tables, mlir::Operation *user,
                  mlir::SymbolRefAttr name);

} // namespace fuse

#endif // FUSE_IR_FUSEMODULES_H
