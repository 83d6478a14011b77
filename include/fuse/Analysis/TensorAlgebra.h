//===- TensorAlgebra.h - Normal forms of expressions ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Normal forms: products, sums and polynomials. They make the recognition of a
// formula independent of the order in which it was written. Reordering changes
// the last bits of f32 results, which layer ops do not specify. Layer ops do
// specify roundings to narrower types, so every normal form lists the roundings
// that it looked through.
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

  double factorOf(const Expr *term) const;
};

/// Whether two constants are the same number to the precision of f32.
bool isSameNumber(double lhs, double rhs);

/// `expr` as a product, in which `atoms` stay whole. Fails if the product has
/// too many factors.
std::optional<ExprProduct> getProduct(const Expr *expr,
                                      llvm::ArrayRef<const Expr *> atoms = {});

/// `expr` as a sum, with constant factors distributed over its terms.
std::optional<ExprSum> getSum(const Expr *expr,
                              llvm::ArrayRef<const Expr *> atoms = {});

/// Coefficients of `expr` as a polynomial in `x` of degree at most 3, the
/// constant first. Roundings inside are appended to `rounds`.
std::optional<std::array<double, 4>>
getPolynomial(const Expr *expr, const Expr *x, RoundSet &rounds);

/// Nodes of `expr` in breadth-first order, at most `limit`.
llvm::SmallVector<const Expr *> getNodes(const Expr *expr, unsigned limit);

} // namespace fuse

#endif // FUSE_ANALYSIS_TENSORALGEBRA_H
