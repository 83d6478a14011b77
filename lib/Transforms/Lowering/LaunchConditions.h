//===- LaunchConditions.h - Conditions of launches --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_LOWERING_LAUNCHCONDITIONS_H
#define FUSE_TRANSFORMS_LOWERING_LAUNCHCONDITIONS_H

#include "LaunchSizes.h"
#include "TileLaunches.h"

namespace fuse {

/// `lhs predicate rhs`, where the predicate is eq, ne, lt or le.
struct SizeComparison {
  llvm::StringRef predicate;
  mlir::AffineExpr lhs, rhs;
};

/// Clauses of comparisons. The condition holds if all comparisons of a clause
/// hold.
using LaunchCondition =
    llvm::SmallVector<llvm::SmallVector<SizeComparison, 1>, 1>;

/// The condition of a step in all of `branches`. Emits an error if it is not
/// one on sizes of arguments.
llvm::FailureOr<LaunchCondition>
evaluateCondition(llvm::ArrayRef<HostBranch> branches, LaunchSizes &sizes);

} // namespace fuse

#endif // FUSE_TRANSFORMS_LOWERING_LAUNCHCONDITIONS_H
