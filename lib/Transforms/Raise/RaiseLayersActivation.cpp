//===- RaiseLayersActivation.cpp - Recognize activations ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An exponential, tanh or erf identifies an activation. Which activation it is
// follows from the polynomial in its argument and from the terms and factors
// around it. All are written as `x * (1 + r * f(p(x)))^e * c`.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

namespace {

/// `x * (1 + ratio * f(polynomial(x)))^exponent * coefficient`; for erfc,
/// `x * erfc(polynomial(x))^exponent * coefficient`.
struct GateForm {
  const Expr *function;
  std::array<double, 4> polynomial{};
  double ratio = 0.0;
  double exponent = 0.0;
  double coefficient = 0.0;
  RoundSet rounds;
};

struct KnownForm {
  Activation kind;
  ExprKind function;
  double linear, cubic, ratio, exponent, coefficient;
};

} // namespace

static ArrayRef<KnownForm> getKnownForms() {
  static const double rootHalf = std::sqrt(0.5);
  static const double tanhScale = std::sqrt(2.0 / M_PI);
  static const KnownForm forms[] = {
      {Activation::SiLU, ExprKind::Exp, -1.0, 0, 1, -1, 1},
      {Activation::QuickGELU, ExprKind::Exp, -1.702, 0, 1, -1, 1},
      // (1 + tanh(u)) / 2 = sigmoid(2 * u)
      {Activation::GELUTanh, ExprKind::Exp, -2 * tanhScale,
       -2 * tanhScale * 0.044715, 1, -1, 1},
      {Activation::GELU, ExprKind::Erf, rootHalf, 0, 1, 1, 0.5},
      {Activation::GELU, ExprKind::Erfc, -rootHalf, 0, 0, 1, 0.5},
      {Activation::GELUTanh, ExprKind::Tanh, tanhScale, tanhScale * 0.044715, 1,
       1, 0.5},
      // sigmoid(x) = (1 + tanh(x / 2)) / 2
      {Activation::SiLU, ExprKind::Tanh, 0.5, 0, 1, 1, 0.5},
      {Activation::QuickGELU, ExprKind::Tanh, 0.851, 0, 1, 1, 0.5},
  };
  return forms;
}

/// Reads `expr` as a sum `a + b * function`.
static bool readSum(const Expr *expr, const Expr *function, GateForm &form,
                    double &constant) {
  std::optional<ExprSum> sum = getSum(expr, function);
  if (!sum || sum->terms.size() != 1 || sum->terms.front().first != function ||
      sum->constant == 0.0)
    return false;
  constant = sum->constant;
  form.ratio = sum->terms.front().second / sum->constant;
  form.rounds.insert(sum->rounds.begin(), sum->rounds.end());
  return true;
}

/// Reads `body` as a gate form in `x`.
static std::optional<GateForm> readForm(const Expr *body, const Expr *function,
                                        const Expr *x) {
  GateForm form;
  form.function = function;
  std::optional<std::array<double, 4>> polynomial =
      getPolynomial(function->operand(0), x, form.rounds);
  if (!polynomial)
    return std::nullopt;
  form.polynomial = *polynomial;

  const Expr *stripped = body;
  while (stripped->kind == ExprKind::Round) {
    form.rounds.insert(stripped);
    stripped = stripped->operand(0);
  }
  // The distributed product c * x + d * x * f(x).
  if (stripped->kind == ExprKind::Add || stripped->kind == ExprKind::Sub) {
    double minus = stripped->kind == ExprKind::Sub ? -1.0 : 1.0;
    auto first = getProduct(stripped->operand(0), {x, function});
    auto second = getProduct(stripped->operand(1), {x, function});
    if (!first || !second)
      return std::nullopt;
    second->coefficient *= minus;
    if (first->exponentOf(function) != 0.0)
      std::swap(first, second);
    if (first->factors.size() != 1 || first->exponentOf(x) != 1.0 ||
        second->factors.size() != 2 || second->exponentOf(x) != 1.0 ||
        second->exponentOf(function) != 1.0 || first->coefficient == 0.0)
      return std::nullopt;
    form.rounds.insert(first->rounds.begin(), first->rounds.end());
    form.rounds.insert(second->rounds.begin(), second->rounds.end());
    form.exponent = 1.0;
    form.ratio = second->coefficient / first->coefficient;
    form.coefficient = first->coefficient;
    return form;
  }

  std::optional<ExprProduct> product = getProduct(stripped, {x, function});
  if (!product || product->factors.size() != 2 || product->exponentOf(x) != 1.0)
    return std::nullopt;
  form.rounds.insert(product->rounds.begin(), product->rounds.end());
  for (const auto &[factor, exponent] : product->factors) {
    if (factor == x)
      continue;
    form.exponent = exponent;
    form.coefficient = product->coefficient;
    if (factor == function)
      return form;
    double constant;
    if (!readSum(factor, function, form, constant))
      return std::nullopt;
    form.coefficient *= std::pow(constant, exponent);
    return form;
  }
  return std::nullopt;
}

static bool matches(const GateForm &form, const KnownForm &known) {
  // A coefficient that must be zero is exactly zero: no rounding produces it.
  auto same = [](double value, double wanted) {
    return wanted == 0.0 ? value == 0.0 : isSameNumber(value, wanted);
  };
  return form.function->kind == known.function && form.polynomial[0] == 0.0 &&
         same(form.polynomial[1], known.linear) && form.polynomial[2] == 0.0 &&
         same(form.polynomial[3], known.cubic) &&
         same(form.ratio, known.ratio) && form.exponent == known.exponent &&
         same(form.coefficient, known.coefficient);
}

/// Whether `form` differs from `known` only in constants.
static bool resembles(const GateForm &form, const KnownForm &known) {
  return form.function->kind == known.function &&
         form.exponent == known.exponent && form.polynomial[0] == 0.0 &&
         form.polynomial[2] == 0.0 && form.polynomial[1] != 0.0 &&
         (form.polynomial[3] != 0.0) == (known.cubic != 0.0) &&
         (form.ratio != 0.0) == (known.ratio != 0.0);
}

static Value buildActivation(LayerRaiser &raiser, const LayerRoot &root,
                             const Expr *anchor, Activation kind,
                             const Expr *x) {
  Value input = raiser.getTensor(root, x);
  if (!input)
    return raiser.refuse(root, anchor, "activation",
                         RefusalKind::RaiseInputNotATensor, x);
  if (ShapedType::isDynamic(root.features()))
    return raiser.refuse(root, anchor, "activation",
                         RefusalKind::RaiseDynamicFeatures, root.expr);
  return ActivationOp::create(raiser.builder, root.loc(), root.type, kind,
                              input)
      .getY();
}

static Value raiseGate(LayerRaiser &raiser, const LayerRoot &root,
                       const Expr *function) {
  for (const Expr *x : getNodes(function->operand(0), /*limit=*/24)) {
    if (x->isConstant() || x->origins.empty())
      continue;
    std::optional<GateForm> form = readForm(root.body, function, x);
    if (!form)
      continue;
    for (const KnownForm &known : getKnownForms()) {
      if (!matches(*form, known))
        continue;
      if (form->rounds.empty())
        return buildActivation(raiser, root, function, known.kind, x);
      return raiser.refuse(
          root, function, "activation", RefusalKind::RaiseExtraRounding,
          form->rounds.front(),
          stringifyActivation(known.kind).str() + " in f32 rounds once");
    }
    for (const KnownForm &known : getKnownForms())
      if (resembles(*form, known))
        return raiser.refuse(
            root, function, "activation", RefusalKind::RaiseConstant, function,
            llvm::formatv("x * {0:e}, x^3 * {1:e} and factor {2:e}; {3} has "
                          "{4:e}, {5:e} and {6:e}",
                          form->polynomial[1], form->polynomial[3],
                          form->coefficient, stringifyActivation(known.kind),
                          known.linear, known.cubic, known.coefficient));
  }
  return {};
}

static bool isMax(const Expr *expr) {
  return expr->kind == ExprKind::Max || expr->kind == ExprKind::MaxNum;
}

/// max(x, 0), or its square.
static Value raiseRectifier(LayerRaiser &raiser, const LayerRoot &root) {
  const Expr *rectified = root.body;
  Activation kind = Activation::ReLU;
  if (std::optional<ExprProduct> square = getProduct(root.body);
      square && square->coefficient == 1.0 && square->factors.size() == 1 &&
      square->factors.front().second == 2.0) {
    rectified = square->factors.front().first;
    kind = Activation::ReLU2;
    if (!square->rounds.empty())
      return {};
  }
  if (!isMax(rectified) || raiser.partsOfRefused.contains(rectified))
    return {};
  for (unsigned i : {0u, 1u}) {
    const Expr *x = rectified->operand(1 - i);
    if (!rectified->operand(i)->isConstant(0.0) || x->isConstant())
      continue;
    if (rectified->kind == ExprKind::MaxNum)
      return raiser.refuse(root, rectified, "activation", RefusalKind::RaiseNaN,
                           rectified);
    return buildActivation(raiser, root, rectified, kind, x);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Other activations
//===----------------------------------------------------------------------===//

/// The factor `c` if `expr` is `c * x`.
static std::optional<double> getFactor(const Expr *expr, const Expr *x) {
  std::optional<ExprProduct> product = getProduct(expr, {x});
  if (!product || product->factors.size() != 1 || product->exponentOf(x) != 1.0)
    return std::nullopt;
  return product->coefficient;
}

static bool isMin(const Expr *expr) {
  return expr->kind == ExprKind::Min || expr->kind == ExprKind::MinNum;
}

/// The other operand of `expr`, one operand of which is a constant. Stores the
/// constant in `bound`.
static const Expr *getBounded(const Expr *expr, double &bound) {
  for (unsigned i : {0u, 1u})
    if (expr->operand(i)->isConstant() && !expr->operand(1 - i)->isConstant()) {
      bound = expr->operand(i)->value;
      return expr->operand(1 - i);
    }
  return nullptr;
}

/// The value that the comparison `compare` finds to be positive, or null.
static const Expr *getPositive(const Expr *compare) {
  using Predicate = arith::CmpFPredicate;
  auto predicate = static_cast<Predicate>(int(compare->value));
  bool greater = predicate == Predicate::OGT || predicate == Predicate::OGE ||
                 predicate == Predicate::UGT || predicate == Predicate::UGE;
  bool less = predicate == Predicate::OLT || predicate == Predicate::OLE ||
              predicate == Predicate::ULT || predicate == Predicate::ULE;
  const Expr *lhs = compare->operand(0), *rhs = compare->operand(1);
  if (greater && rhs->isConstant(0.0))
    return lhs;
  return less && lhs->isConstant(0.0) ? rhs : nullptr;
}

/// The slope `c` below zero if `body` is `x` above zero and `c * x` elsewhere:
/// a select, `max(x, c * x)`, or `max(x, 0) + c * min(x, 0)`.
static std::optional<double> getLeakySlope(const Expr *body) {
  if (body->kind == ExprKind::Select) {
    const Expr *x = getPositive(body->operand(0));
    return x == body->operand(1) ? getFactor(body->operand(2), x)
                                 : std::nullopt;
  }
  if (isMax(body)) {
    for (unsigned i : {0u, 1u})
      if (auto slope = getFactor(body->operand(1 - i), body->operand(i));
          slope && 0.0 < *slope && *slope < 1.0)
        return slope;
    return std::nullopt;
  }
  std::optional<ExprSum> sum = getSum(body);
  if (!sum || sum->terms.size() != 2 || sum->constant != 0.0)
    return std::nullopt;
  for (unsigned i : {0u, 1u}) {
    auto [above, one] = sum->terms[i];
    auto [below, slope] = sum->terms[1 - i];
    double upper, lower;
    if (!isMax(above) || !isMin(below) || one != 1.0)
      continue;
    const Expr *x = getBounded(above, lower);
    if (x && x == getBounded(below, upper) && lower == 0.0 && upper == 0.0)
      return slope;
  }
  return std::nullopt;
}

/// Whether `factor * coefficient` is `clamp(x + 3, 0, 6) / 6`.
static bool isHardSigmoid(const Expr *factor, const Expr *x,
                          double coefficient) {
  const Expr *inner = factor;
  std::optional<double> lower, upper;
  for (unsigned i = 0; i < 2; ++i) {
    if (!inner || !(isMax(inner) || isMin(inner)))
      return false;
    std::optional<double> &bound = isMax(inner) ? lower : upper;
    double value;
    inner = getBounded(inner, value);
    bound = value;
  }
  RoundSet rounds;
  std::optional<std::array<double, 4>> polynomial;
  if (inner)
    polynomial = getPolynomial(inner, x, rounds);
  return polynomial && lower && upper && *lower == 0.0 &&
         isSameNumber(*upper * coefficient, 1.0) &&
         isSameNumber((*polynomial)[0] * coefficient, 0.5) &&
         isSameNumber((*polynomial)[1] * coefficient, 1.0 / 6.0) &&
         (*polynomial)[2] == 0.0 && (*polynomial)[3] == 0.0;
}

/// Whether `expr` is `log(1 + exp(x))`, in any of its stable variants.
static bool isSoftplus(const Expr *expr, const Expr *x) {
  bool hasLog = false, hasExp = false, hasInput = false;
  for (const Expr *node : getNodes(expr, /*limit=*/32)) {
    hasLog |= node->kind == ExprKind::Log || node->kind == ExprKind::Log1p;
    hasExp |= node->kind == ExprKind::Exp;
    hasInput |= node == x;
  }
  return hasLog && hasExp && hasInput;
}

/// The name of a known activation that no layer op computes, or an empty
/// string.
static std::string nameOtherActivation(const Expr *body) {
  if (std::optional<double> slope = getLeakySlope(body)) {
    std::string name = "leaky_relu with slope ";
    llvm::raw_string_ostream(name) << llvm::format("%g", getShortest(*slope));
    return name;
  }
  std::optional<ExprProduct> product = getProduct(body);
  if (!product || product->factors.size() != 2)
    return {};
  for (unsigned i : {0u, 1u}) {
    auto [x, one] = product->factors[i];
    auto [factor, exponent] = product->factors[1 - i];
    if (one != 1.0 || exponent != 1.0)
      continue;
    if (isHardSigmoid(factor, x, product->coefficient))
      return "hardswish";
    if (factor->kind == ExprKind::Tanh && product->coefficient == 1.0 &&
        isSoftplus(factor->operand(0), x))
      return "mish";
  }
  return {};
}

Value fuse::raiseActivation(LayerRaiser &raiser, const LayerRoot &root) {
  if (Value rectifier = raiseRectifier(raiser, root))
    return rectifier;
  for (const Expr *node : getNodes(root.body, /*limit=*/32)) {
    bool gives = node->kind == ExprKind::Exp || node->kind == ExprKind::Tanh ||
                 node->kind == ExprKind::Erf || node->kind == ExprKind::Erfc;
    if (!gives)
      continue;
    if (Value activation = raiseGate(raiser, root, node))
      return activation;
  }
  std::string other = nameOtherActivation(root.body);
  if (other.empty())
    return {};
  for (const Expr *node : getNodes(root.body, /*limit=*/32))
    if (isMax(node))
      raiser.partsOfRefused.insert(node);
  return raiser.refuse(root, root.expr, "activation",
                       RefusalKind::RaiseUnknownActivation, root.expr,
                       std::move(other));
}
