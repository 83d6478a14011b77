//===- TensorAlgebra.cpp - Normal forms of expressions --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One layer can be written as a product or sum in many ways. The normal forms
// unify them: a product of powers, a sum of terms with constant factors, a
// polynomial of one variable. Roundings are collected, because their place
// decides whether a formula is a norm and which variant it is.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/TensorAlgebra.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

/// Maximum number of nodes that a normal form visits. Layers need about 12.
/// Shared nodes are visited once per use, which is exponential in the worst
/// case.
static constexpr unsigned kMaxVisits = 256;

double ExprProduct::exponentOf(const Expr *base) const {
  for (const auto &[factor, exponent] : factors)
    if (factor == base)
      return exponent;
  return 0.0;
}

double ExprSum::factorOf(const Expr *term) const {
  for (const auto &[known, factor] : terms)
    if (known == term)
      return factor;
  return 0.0;
}

bool fuse::isSameNumber(double lhs, double rhs) {
  // Relative tolerance. The product of two f32 constants has three rounding
  // errors of up to 2^-24 (6e-8) each: two of the factors and one of the
  // product. This is about four of them.
  constexpr double tolerance = 2.5e-7;
  return lhs == rhs || std::abs(lhs - rhs) <= tolerance * std::abs(rhs);
}

/// Adds to the amount of `base`. Equal expressions are the same node, so bases
/// are compared by pointer.
template <typename Entries>
static void accumulate(Entries &entries, const Expr *base, double amount) {
  for (auto &[known, total] : entries)
    if (known == base) {
      total += amount;
      return;
    }
  entries.emplace_back(base, amount);
}

namespace {

/// Collects `expr^exponent`, factor by factor, in which `atoms` stay whole.
class ProductBuilder {
public:
  ProductBuilder(ArrayRef<const Expr *> atoms) : atoms(atoms) {}

  bool visit(const Expr *expr, double exponent) {
    if (++visits > kMaxVisits)
      return false;
    if (llvm::is_contained(atoms, expr))
      return addFactor(expr, exponent);
    // Only whole powers distribute over signs and constants safely.
    bool whole = exponent == std::floor(exponent) && std::abs(exponent) <= 8;
    switch (expr->kind) {
    case ExprKind::Round:
      // A sum is a factor together with its rounding.
      if (expr->operand(0)->kind == ExprKind::Add ||
          expr->operand(0)->kind == ExprKind::Sub)
        break;
      product.rounds.insert(expr);
      return visit(expr->operand(0), exponent);
    case ExprKind::Constant:
      product.coefficient *= std::pow(expr->value, exponent);
      return std::isfinite(product.coefficient);
    case ExprKind::Neg:
      if (!whole)
        break;
      if (std::fmod(exponent, 2.0) != 0.0)
        product.coefficient = -product.coefficient;
      return visit(expr->operand(0), exponent);
    case ExprKind::Mul:
      if (!whole)
        break;
      return visit(expr->operand(0), exponent) &&
             visit(expr->operand(1), exponent);
    case ExprKind::Div:
      if (!whole)
        break;
      return visit(expr->operand(0), exponent) &&
             visit(expr->operand(1), -exponent);
    case ExprKind::Sqrt:
      return addFactor(expr->operand(0), 0.5 * exponent);
    case ExprKind::Rsqrt:
      return addFactor(expr->operand(0), -0.5 * exponent);
    case ExprKind::Pow: {
      const Expr *power = expr->operand(1);
      if (!power->isConstant() || !whole || std::abs(power->value) > 8)
        break;
      if (power->value == std::floor(power->value))
        return visit(expr->operand(0), exponent * power->value);
      return addFactor(expr->operand(0), exponent * power->value);
    }
    default:
      break;
    }
    return addFactor(expr, exponent);
  }

  ExprProduct product;

private:
  bool addFactor(const Expr *expr, double exponent) {
    // sqrt(x) * sqrt(x) is not x below zero, and x * x / x is not x at zero.
    double known = product.exponentOf(expr);
    bool isWhole = exponent == std::floor(exponent);
    if (known != 0.0 && (!isWhole || known != std::floor(known) ||
                         std::signbit(known) != std::signbit(exponent)))
      return false;
    accumulate(product.factors, expr, exponent);
    return true;
  }

  ArrayRef<const Expr *> atoms;
  unsigned visits = 0;
};

/// Collects `factor * expr`, term by term.
class SumBuilder {
public:
  SumBuilder(ArrayRef<const Expr *> atoms) : atoms(atoms) {}

  bool visit(const Expr *expr, double factor) {
    if (++visits > kMaxVisits || !std::isfinite(factor))
      return false;
    if (llvm::is_contained(atoms, expr)) {
      accumulate(sum.terms, expr, factor);
      return true;
    }
    switch (expr->kind) {
    case ExprKind::Round:
      sum.rounds.insert(expr);
      return visit(expr->operand(0), factor);
    case ExprKind::Constant:
      sum.constant += factor * expr->value;
      return true;
    case ExprKind::Neg:
      return visit(expr->operand(0), -factor);
    case ExprKind::Add:
      return visit(expr->operand(0), factor) && visit(expr->operand(1), factor);
    case ExprKind::Sub:
      return visit(expr->operand(0), factor) &&
             visit(expr->operand(1), -factor);
    case ExprKind::Mul:
      for (unsigned i : {0u, 1u})
        if (expr->operand(i)->isConstant())
          return visit(expr->operand(1 - i), factor * expr->operand(i)->value);
      break;
    case ExprKind::Div:
      if (expr->operand(1)->isConstant())
        return visit(expr->operand(0), factor / expr->operand(1)->value);
      break;
    default:
      break;
    }
    accumulate(sum.terms, expr, factor);
    return true;
  }

  ExprSum sum;

private:
  ArrayRef<const Expr *> atoms;
  unsigned visits = 0;
};

/// Coefficients from the constant to the cube. The tanh form of gelu needs
/// degree 3.
using Polynomial = std::array<double, 4>;

class PolynomialBuilder {
public:
  PolynomialBuilder(const Expr *x, RoundSet &rounds) : x(x), rounds(rounds) {}

  std::optional<Polynomial> visit(const Expr *expr) {
    if (++visits > kMaxVisits)
      return std::nullopt;
    if (expr == x)
      return Polynomial{0, 1, 0, 0};
    switch (expr->kind) {
    case ExprKind::Constant:
      return Polynomial{expr->value, 0, 0, 0};
    case ExprKind::Round:
      rounds.insert(expr);
      return visit(expr->operand(0));
    case ExprKind::Neg:
      return scale(visit(expr->operand(0)), -1.0);
    case ExprKind::Add:
      return add(visit(expr->operand(0)), visit(expr->operand(1)));
    case ExprKind::Sub:
      return add(visit(expr->operand(0)), scale(visit(expr->operand(1)), -1.0));
    case ExprKind::Mul:
      return multiply(visit(expr->operand(0)), visit(expr->operand(1)));
    case ExprKind::Div:
      if (!expr->operand(1)->isConstant())
        return std::nullopt;
      return scale(visit(expr->operand(0)), 1.0 / expr->operand(1)->value);
    case ExprKind::Pow: {
      const Expr *power = expr->operand(1);
      if (!power->isConstant() ||
          (power->value != 1.0 && power->value != 2.0 && power->value != 3.0))
        return std::nullopt;
      std::optional<Polynomial> base = visit(expr->operand(0)), result = base;
      for (int i = 1; i < int(power->value); ++i)
        result = multiply(result, base);
      return result;
    }
    default:
      return std::nullopt;
    }
  }

private:
  using Result = std::optional<Polynomial>;

  static Result scale(Result p, double factor) {
    if (p)
      for (double &coefficient : *p)
        coefficient *= factor;
    return p;
  }
  static Result add(Result p, Result q) {
    if (!p || !q)
      return std::nullopt;
    for (auto [sum, term] : llvm::zip_equal(*p, *q))
      sum += term;
    return p;
  }
  static Result multiply(Result p, Result q) {
    if (!p || !q)
      return std::nullopt;
    Polynomial product{};
    for (unsigned i = 0; i < p->size(); ++i)
      for (unsigned j = 0; j < q->size(); ++j) {
        double term = (*p)[i] * (*q)[j];
        if (i + j < product.size())
          product[i + j] += term;
        else if (term != 0.0)
          return std::nullopt;
      }
    return product;
  }

  const Expr *x;
  RoundSet &rounds;
  unsigned visits = 0;
};

} // namespace

std::optional<ExprProduct> fuse::getProduct(const Expr *expr,
                                            ArrayRef<const Expr *> atoms) {
  ProductBuilder builder(atoms);
  if (!builder.visit(expr, 1.0))
    return std::nullopt;
  return std::move(builder.product);
}

std::optional<ExprSum> fuse::getSum(const Expr *expr,
                                    ArrayRef<const Expr *> atoms) {
  SumBuilder builder(atoms);
  if (!builder.visit(expr, 1.0))
    return std::nullopt;
  return std::move(builder.sum);
}

std::optional<std::array<double, 4>>
fuse::getPolynomial(const Expr *expr, const Expr *x, RoundSet &rounds) {
  return PolynomialBuilder(x, rounds).visit(expr);
}

SmallVector<const Expr *> fuse::getNodes(const Expr *expr, unsigned limit) {
  llvm::SmallSetVector<const Expr *, 32> seen;
  seen.insert(expr);
  for (unsigned i = 0; i < seen.size() && seen.size() < limit; ++i)
    for (const Expr *operand : seen[i]->operands)
      seen.insert(operand);
  return seen.takeVector();
}
