//===- ModuleFusion.h - Fuse modules and undo it ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes on models do, for callers that have no pass manager.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_MODULEFUSION_H
#define FUSE_TRANSFORMS_MODULEFUSION_H

#include "fuse/Analysis/ModulePattern.h"
#include "fuse/IR/FuseAttrNames.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace fuse {

struct ModuleFusionCounts {
  unsigned fused = 0;
  unsigned refused = 0;
  /// The ids of all sites, fused or not.
  llvm::StringSet<> sites;
};

/// Replaces the calls of chains that `patterns` select by fused calls, with
/// one remark per site. Fails on a pattern that selects nothing, and when
/// kernels want one parameter in two layouts.
llvm::FailureOr<ModuleFusionCounts>
fuseModules(ModelOp model, llvm::ArrayRef<std::string> patterns,
            const ModuleMatching &matching);

/// The same for every model inside `root`. Fails when `matching` disables a
/// site that no model has.
llvm::FailureOr<ModuleFusionCounts>
fuseAllModules(mlir::Operation *root, llvm::ArrayRef<std::string> patterns,
               const ModuleMatching &matching);

/// The models that `files` hold, for `ModuleMatching::libraries`.
llvm::SmallVector<ModelOp>
getModels(llvm::ArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> files);

/// Puts the forwards of the members of every fused call of a generated kernel,
/// or those of which are wanted, into a function beside the model. Returns how
/// many functions there are.
llvm::FailureOr<unsigned>
inlineFusedCalls(ModelOp model,
                 llvm::function_ref<bool(FusedCallOp)> isWanted = nullptr);

/// What `FUSE-N218` says of a fused call whose body is `function`: kernels have
/// formed in it, and none is what the pattern asked for. Otherwise empty.
std::string describeOtherFamily(FusedCallOp call, mlir::Operation *function);

/// Replaces fused calls by the calls that they stand for. The functions with
/// their bodies, which nothing needs any more, are added to `bodies`.
void unfuseCalls(llvm::ArrayRef<FusedCallOp> calls,
                 mlir::SymbolTableCollection &tables,
                 llvm::SetVector<mlir::Operation *> &bodies);

} // namespace fuse

#endif // FUSE_TRANSFORMS_MODULEFUSION_H
