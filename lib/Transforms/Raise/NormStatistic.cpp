//===- NormStatistic.cpp - The statistic of a norm ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mean of squares can be written in many ways: constant factors inside and
// outside of the sum, squares as products or powers. Formulas that are nearly a
// mean of squares are found too, so that they are refused by name.
//
//===----------------------------------------------------------------------===//

#include "NormStatistic.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

const Expr *fuse::peelConstant(const Expr *expr, double &factor,
                               RoundSet &rounds) {
  if (expr->kind == ExprKind::Round) {
    rounds.insert(expr);
    return expr->operand(0);
  }
  if (expr->kind == ExprKind::Mul)
    for (unsigned i : {0u, 1u})
      if (expr->operand(i)->isConstant()) {
        factor *= expr->operand(i)->value;
        return expr->operand(1 - i);
      }
  if (expr->kind == ExprKind::Div && expr->operand(1)->isConstant()) {
    factor /= expr->operand(1)->value;
    return expr->operand(0);
  }
  return nullptr;
}

/// Strips all constant factors and roundings from `expr`.
static const Expr *peelConstants(const Expr *expr, double &factor,
                                 RoundSet &rounds) {
  while (const Expr *inner = peelConstant(expr, factor, rounds))
    expr = inner;
  return expr;
}

/// The base of a square, or null. Constant factors of one base, as in
/// `x * (x / n)`, are appended to `factor`.
static const Expr *getSquareBase(const Expr *expr, double &factor,
                                 RoundSet &rounds) {
  if (expr->kind == ExprKind::Mul && expr->operand(0) == expr->operand(1))
    return expr->operand(0);
  if (expr->kind == ExprKind::Pow && expr->operand(1)->isConstant(2.0))
    return expr->operand(0);
  if (expr->kind != ExprKind::Mul)
    return nullptr;
  double constant = 1.0;
  const Expr *base = peelConstants(expr->operand(0), constant, rounds);
  if (peelConstants(expr->operand(1), constant, rounds) != base)
    return nullptr;
  factor *= constant;
  return base;
}

const Expr *fuse::getClamped(const Expr *expr) {
  switch (expr->kind) {
  case ExprKind::Max:
  case ExprKind::MaxNum:
  case ExprKind::Min:
  case ExprKind::MinNum:
    break;
  default:
    return nullptr;
  }
  for (unsigned i : {0u, 1u})
    if (expr->operand(i)->isConstant())
      return expr->operand(1 - i);
  return nullptr;
}

bool fuse::isDifferenceOfMeans(const Expr *expr) {
  auto readsSum = [](const Expr *term) {
    return llvm::any_of(getNodes(term, /*limit=*/8), [](const Expr *node) {
      return node->kind == ExprKind::Sum;
    });
  };
  std::optional<ExprSum> sum = getSum(expr);
  if (sum && sum->terms.size() == 1)
    if (const Expr *clamped = getClamped(sum->terms.front().first))
      sum = getSum(clamped);
  return sum && sum->terms.size() == 2 &&
         llvm::any_of(sum->terms, [&](const auto &term) {
           return term.second < 0.0 && readsSum(term.first);
         });
}

/// Whether `expr` is the result of a reduction that expressions do not
/// support, such as one over two dimensions.
static bool isOpaqueReduction(const Expr *expr) {
  auto op = expr->kind == ExprKind::Leaf
                ? dyn_cast_or_null<linalg::LinalgOp>(expr->owner)
                : linalg::LinalgOp();
  return op && op.getNumReductionLoops() > 1;
}

bool fuse::variesWith(const Expr *expr, int dim) {
  return llvm::any_of(getNodes(expr, /*limit=*/48), [&](const Expr *node) {
    return llvm::is_contained(node->index, dim);
  });
}

std::optional<NormStatistic> fuse::getNormStatistic(const Expr *expr) {
  bool isRoot =
      expr->kind == ExprKind::Sqrt || expr->kind == ExprKind::Rsqrt ||
      (expr->kind == ExprKind::Pow && expr->operand(1)->isConstant() &&
       std::abs(expr->operand(1)->value) == 0.5);
  if (!isRoot)
    return std::nullopt;
  NormStatistic statistic{};
  statistic.anchor = expr;
  statistic.variance = expr->operand(0);
  std::optional<ExprSum> variance = getSum(statistic.variance);
  if (!variance)
    return std::nullopt;
  statistic.eps = variance->constant;
  statistic.rounds = variance->rounds;
  for (const auto &[term, factor] : variance->terms) {
    if (term->kind != ExprKind::Sum)
      continue;
    // With any other term besides the constant, `sum` is null, and the caller
    // refuses the formula.
    statistic.sum = variance->terms.size() == 1 ? term : nullptr;
    statistic.factor = factor;
    const Expr *body =
        peelConstants(term->operand(0), statistic.factor, statistic.rounds);
    statistic.squared = getSquareBase(body, statistic.factor, statistic.rounds);
    if (!statistic.squared && body->kind == ExprKind::Sum)
      statistic.problem = RefusalKind::RaiseSplitReduction;
    return statistic;
  }
  // Near misses.
  for (const auto &[term, factor] : variance->terms) {
    const Expr *clamped = getClamped(term);
    for (const Expr *node : getNodes(clamped ? clamped : term, /*limit=*/8))
      if (node->kind == ExprKind::Sum || isOpaqueReduction(node)) {
        statistic.problem = clamped ? RefusalKind::RaiseClampedNorm
                            : isOpaqueReduction(node)
                                ? RefusalKind::RaiseSplitReduction
                                : RefusalKind::RaiseStatisticForm;
        return statistic;
      }
  }
  return std::nullopt;
}
