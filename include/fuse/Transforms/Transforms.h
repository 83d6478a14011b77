//===- Transforms.h - Forming and undoing kernels ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions behind the passes of the same names, for callers without a pass
// manager.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_TRANSFORMS_H
#define FUSE_TRANSFORMS_TRANSFORMS_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <functional>
#include <string>
#include <vector>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace fuse {

/// Adds the passes that turn a user's program into layer ops, in each function
/// of a module. Each tool that fuses a user's file runs them first, so that all
/// tools find the same sites. Private functions are inlined and functions
/// simplified first. Forwards of models do not change.
void buildRaisingPipeline(mlir::OpPassManager &pm);

/// Runs these passes.
llvm::LogicalResult raiseProgram(mlir::ModuleOp module);

/// The options of `fuse-form-kernels`.
struct KernelFormation {
  /// Mnemonics of the families to form; all if empty.
  std::vector<std::string> families;
  /// `exact` or `relaxed`.
  std::string rounding = "exact";
  /// Ids of sites to skip.
  std::vector<std::string> disable;
  /// Called for each refused site, instead of a remark.
  std::function<void(llvm::StringRef site, const Refusal &, mlir::Location,
                     mlir::Operation *op)>
      onRefusal = nullptr;
  /// Called for each fused site, instead of a remark.
  std::function<void(llvm::StringRef site, FusedOpInterface kernel)> onFused =
      nullptr;
};

struct KernelFormationCounts {
  unsigned fused = 0;
  unsigned refused = 0;
};

/// Replaces chains of layer ops in `function` by fused ops, with one remark per
/// site. Fails if an option has an unknown value.
llvm::FailureOr<KernelFormationCounts>
formKernels(mlir::FunctionOpInterface function,
            const KernelFormation &formation);

/// Gives fused ops inside `root` new ids if an earlier one has the same. An op
/// in the function that the id names keeps it. Returns the number of new ids.
unsigned makeSitesUnique(mlir::Operation *root);

/// What `localizeShards` changed.
struct LocalizedCounts {
  unsigned arguments = 0;
  unsigned reductions = 0;
};

/// Gives the tensors of `function` the sizes of one rank, see
/// `fuse-localize-shards`.
llvm::FailureOr<LocalizedCounts> localizeShards(mlir::func::FuncOp function,
                                                int64_t size = 0);

/// Makes a function with the types of one rank compute all ranks, see
/// `fuse-join-ranks`.
llvm::LogicalResult joinRanks(mlir::func::FuncOp function, bool all = false);

struct UnfuseCounts {
  unsigned unfused = 0;
  unsigned displaced = 0;
};

/// Replaces fused ops inside `root` by their chains, and fused calls by the
/// calls of their members. Selects sites in `sites` and sites with a member
/// that a glob in `paths` matches; all if both are empty. Fails if a site or a
/// path selects nothing.
llvm::FailureOr<UnfuseCounts> unfuse(mlir::Operation *root,
                                     llvm::ArrayRef<std::string> sites,
                                     llvm::ArrayRef<std::string> paths = {});

/// Adds patterns that write conversions of 8-bit floats or bf16 as integer
/// arithmetic.
void populateExpandSmallFloatsPatterns(mlir::RewritePatternSet &patterns,
                                       bool f8, bool bf16);

} // namespace fuse

#endif // FUSE_TRANSFORMS_TRANSFORMS_H
