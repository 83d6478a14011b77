//===- NormStatistic.h - The statistic of a norm ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_RAISE_NORMSTATISTIC_H
#define FUSE_TRANSFORMS_RAISE_NORMSTATISTIC_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/Analysis/TensorAlgebra.h"

namespace fuse {

/// `1 / sqrt(mean(squared^2) + eps)` as found in the IR.
struct NormStatistic {
  /// The square root.
  const Expr *anchor;
  /// Its argument.
  const Expr *variance;
  const Expr *sum;
  /// The squared value, indexed by the variable of the sum.
  const Expr *squared;
  double eps;
  /// Factor of the sum; a mean has 1 / features.
  double factor;
  RoundSet rounds;
  /// Why `squared` is null.
  RefusalKind problem = RefusalKind::RaiseStatisticForm;
};

/// The statistic whose square root `expr` is, or nothing if it is not a root of
/// something with a sum. `sum` and `squared` are null in a near miss.
std::optional<NormStatistic> getNormStatistic(const Expr *expr);

/// Strips a constant factor or a rounding from `expr`. Returns null if it has
/// none.
const Expr *peelConstant(const Expr *expr, double &factor, RoundSet &rounds);

/// The other operand of a maximum or minimum with a constant, or null.
const Expr *getClamped(const Expr *expr);

/// Whether `expr` is E[x^2] - E[x]^2 plus a constant. It may be clamped,
/// because it can be negative.
bool isDifferenceOfMeans(const Expr *expr);

/// Whether the value of `expr` varies with dimension `dim` of the root.
bool variesWith(const Expr *expr, int dim);

} // namespace fuse

#endif // FUSE_TRANSFORMS_RAISE_NORMSTATISTIC_H
