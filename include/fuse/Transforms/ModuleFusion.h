//===- ModuleFusion.h - Fuse modules and undo it ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions behind the passes on models, for callers without a pass manager.
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

/// Replaces the calls of chains that `patterns` select by fused calls, with one
/// remark per site. Fails if a pattern selects nothing, or if kernels require
/// one parameter in two layouts.
llvm::FailureOr<ModuleFusionCounts>
fuseModules(ModelOp model, llvm::ArrayRef<std::string> patterns,
            const ModuleMatching &matching);

/// Calls fuseModules for every model inside `root`. Fails if `matching`
/// disables a site that does not exist in any model.
llvm::FailureOr<ModuleFusionCounts>
fuseAllModules(mlir::Operation *root, llvm::ArrayRef<std::string> patterns,
               const ModuleMatching &matching);

/// The models in `files`, for `ModuleMatching::libraries`.
llvm::SmallVector<ModelOp>
getModels(llvm::ArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> files);

/// Copies the forwards of the members of each fused call of a generated kernel
/// into a function next to the model. With `isWanted`, only for calls that
/// satisfy it. Returns the number of new functions.
llvm::FailureOr<unsigned>
inlineFusedCalls(ModelOp model,
                 llvm::function_ref<bool(FusedCallOp)> isWanted = nullptr);

/// The detail of refusal `FUSE-N218` for a fused call whose body is `function`:
/// it contains kernels, but none of the requested family. Otherwise empty.
std::string describeOtherFamily(FusedCallOp call, mlir::Operation *function);

/// Replaces fused calls by the calls of their members. Adds the functions with
/// their bodies to `bodies`; they are no longer used.
void unfuseCalls(llvm::ArrayRef<FusedCallOp> calls,
                 mlir::SymbolTableCollection &tables,
                 llvm::SetVector<mlir::Operation *> &bodies);

} // namespace fuse

#endif // FUSE_TRANSFORMS_MODULEFUSION_H
