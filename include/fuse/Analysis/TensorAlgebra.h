//===- TensorAlgebra.h - Normal forms of expressions ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products, sums and polynomials, so that a formula is recognized in whatever
// order it was written. Reordering changes f32 results in the last bits, which
// layer ops leave open; a rounding to a narrower type they do not leave open,
// so every normal form lists those that it looked through.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_TENSORALGEBRA_H
#define FUSE_ANALYSIS_TENSORALGEBRA_H

#include "fuse/Analysis/TensorExpr.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace fuse {

using RoundSet = llvm::SmallSetVector<const Expr *, 4>;

/// `coefficient * product of base ^ exponent`, bases distinct.
struct ExprProduct {
  double coefficient = 1.0;
  llvm::SmallVector<std::pair<const Expr *, double>, 4> factors;
  RoundSet rounds;

  double exponentOf(const Expr *base) const;
};

/// `constant + sum of factor * term`, terms distinct.
struct ExprSum {
  double constant = 0.0;
  llvm::SmallVector<std::pair<const Expr *, double>, 4> terms;
  RoundSet rounds;
};

/// Whether two constants are the same number to the precision of f32.
bool isSameNumber(double lhs, double rhs);

/// `expr` as a product. What is in `atoms` is not taken apart. Fails on
/// products of very many factors.
std::optional<ExprProduct> getProduct(const Expr *expr,
                                      llvm::ArrayRef<const Expr *> atoms = {});

/// `expr` as a sum, products with a constant distributed.
std::optional<ExprSum> getSum(const Expr *expr,
                              llvm::ArrayRef<const Expr *> atoms = {});

/// Coefficients of `expr` as a polynomial of degree 3 at most in `x`, the
/// constant first. Roundings on the way are added to `rounds`.
std::optional<std::array<double, 4>>
getPolynomial(const Expr *expr, const Expr *x, RoundSet &rounds);

/// Nodes of `expr` in breadth-first order, `limit` at most.
llvm::SmallVector<const Expr *> getNodes(const Expr *expr, unsigned limit);

} // namespace fuse

#endif // FUSE_ANALYSIS_TENSORALGEBRA_H
