//===- Transforms.h - Forming and undoing kernels ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes of the same names do, for callers that have no pass manager.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_TRANSFORMS_H
#define FUSE_TRANSFORMS_TRANSFORMS_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <functional>
#include <string>
#include <vector>

namespace fuse {

/// What to form, as in the options of `fuse-form-kernels`.
struct KernelFormation {
  /// Mnemonics of the families to form; all when empty.
  std::vector<std::string> families;
  /// `exact` or `relaxed`.
  std::string rounding = "exact";
  /// Ids of sites that are left alone.
  std::vector<std::string> disable;
  /// Takes what would be a remark on a refused site.
  std::function<void(llvm::StringRef site, const Refusal &, mlir::Location,
                     mlir::Operation *op)>
      onRefusal = nullptr;
  /// Takes what would be a remark on a fused site.
  std::function<void(llvm::StringRef site, FusedOpInterface kernel)> onFused =
      nullptr;
};

struct KernelFormationCounts {
  unsigned fused = 0;
  unsigned refused = 0;
};

/// Replaces chains of layer ops in `function` by fused ops, with one remark
/// per site. Fails on options that name something unknown.
llvm::FailureOr<KernelFormationCounts>
formKernels(mlir::FunctionOpInterface function,
            const KernelFormation &formation);

struct UnfuseCounts {
  unsigned unfused = 0;
  unsigned displaced = 0;
};

/// Replaces the fused ops inside `root` by their chains, and fused calls by the
/// calls of their members: those whose site is in `sites` or that have a member
/// whose path one of `paths` matches, all when both are empty. Fails when a
/// site or a path selects nothing.
llvm::FailureOr<UnfuseCounts> unfuse(mlir::Operation *root,
                                     llvm::ArrayRef<std::string> sites,
                                     llvm::ArrayRef<std::string> paths = {});

/// Patterns that write conversions of 8-bit floats, bf16 or both in integer
/// arithmetic.
void populateExpandSmallFloatsPatterns(mlir::RewritePatternSet &patterns,
                                       bool f8, bool bf16);

} // namespace fuse

#endif // FUSE_TRANSFORMS_TRANSFORMS_H
