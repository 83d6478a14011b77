//===- RaiseLayersNorm.cpp - Recognize norms ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The square root of a mean identifies a norm. The squared value under the mean
// is the input or the centered input, the constant added to the mean is eps,
// and the remaining factor is the weight. The places of the roundings decide
// between the variants of an rms norm.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

namespace {

/// `1 / sqrt(mean(squared^2) + eps)` as found in the IR.
struct Statistic {
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
};

/// The factor of the normalized value.
struct Weight {
  Value tensor;
  int64_t offset = 0;
  /// The rounding of `1 + weight`, or null.
  const Expr *round = nullptr;
};

class NormMatcher {
public:
  NormMatcher(LayerRaiser &raiser, const LayerRoot &root)
      : raiser(raiser), root(root) {}

  Value match();

private:
  Value matchNorm();
  bool findCentered(const Expr *normalized, const Expr *&x);
  bool checkStatistic();
  Value buildRMSNorm(const Expr *x, const ExprProduct &product,
                     const Expr *weight);
  Value buildLayerNorm(const Expr *x, const ExprProduct &product,
                       const Expr *weight, const Expr *bias);
  std::optional<Weight> matchWeight(const Expr *expr);
  const Expr *atRoot(const Expr *inSum, int variable);

  Value getVector(const Expr *expr) {
    return raiser.getVector(root, expr, root.lastDim(), root.features());
  }

  Value refuse(RefusalKind kind, const Expr *at, std::string detail = {}) {
    return raiser.refuse(root, statistic.anchor, layer, kind, at,
                         std::move(detail));
  }

  LayerRaiser &raiser;
  const LayerRoot &root;
  Statistic statistic;
  StringRef layer = "rms_norm";
};

} // namespace

/// Strips constant factors and roundings from `expr`.
static const Expr *peelConstants(const Expr *expr, double &factor,
                                 RoundSet &rounds) {
  while (true) {
    if (expr->kind == ExprKind::Round) {
      rounds.insert(expr);
      expr = expr->operand(0);
    } else if (expr->kind == ExprKind::Mul && expr->operand(0)->isConstant()) {
      factor *= expr->operand(0)->value;
      expr = expr->operand(1);
    } else if (expr->kind == ExprKind::Mul && expr->operand(1)->isConstant()) {
      factor *= expr->operand(1)->value;
      expr = expr->operand(0);
    } else if (expr->kind == ExprKind::Div && expr->operand(1)->isConstant()) {
      factor /= expr->operand(1)->value;
      expr = expr->operand(0);
    } else {
      return expr;
    }
  }
}

/// The base of a square, or null.
static const Expr *getSquareBase(const Expr *expr) {
  if (expr->kind == ExprKind::Mul && expr->operand(0) == expr->operand(1))
    return expr->operand(0);
  if (expr->kind == ExprKind::Pow && expr->operand(1)->isConstant(2.0))
    return expr->operand(0);
  return nullptr;
}

/// Whether `expr` is E[x^2] - E[x]^2 plus a constant.
static bool isDifferenceOfMeans(const Expr *expr) {
  std::optional<ExprSum> sum = getSum(expr);
  return sum && sum->terms.size() == 2 &&
         llvm::any_of(sum->terms, [](const auto &term) {
           return term.second < 0.0 && llvm::any_of(
                                           getNodes(term.first, /*limit=*/8),
                                           [](const Expr *node) {
                                             return node->kind == ExprKind::Sum;
                                           });
         });
}

/// Whether `expr` is a square root of something that contains a sum.
static std::optional<Statistic> getStatistic(const Expr *expr) {
  bool isRoot =
      expr->kind == ExprKind::Sqrt || expr->kind == ExprKind::Rsqrt ||
      (expr->kind == ExprKind::Pow && expr->operand(1)->isConstant() &&
       std::abs(expr->operand(1)->value) == 0.5);
  if (!isRoot)
    return std::nullopt;
  Statistic statistic{};
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
    statistic.squared = getSquareBase(body);
    return statistic;
  }
  return std::nullopt;
}

/// The value of `inSum` at the index of the root instead of the sum's variable.
const Expr *NormMatcher::atRoot(const Expr *inSum, int variable) {
  for (const auto &[tensor, at] : inSum->origins) {
    auto type = cast<RankedTensorType>(tensor.getType());
    if (type.getRank() != root.type.getRank())
      continue;
    // A sum over a dimension of size 1 has no index in it.
    if (root.features() != 1 && (at.empty() || at.back() != variable))
      continue;
    ExprIndex index(at);
    llvm::replace(index, variable, root.lastDim());
    if (ArrayRef<int>(index) == ArrayRef<int>(root.index))
      return raiser.exprs.get(tensor, index);
  }
  return nullptr;
}

Value NormMatcher::match() {
  for (const Expr *node : getNodes(root.body, /*limit=*/48))
    if (std::optional<Statistic> found = getStatistic(node)) {
      // Statistics deeper in the expression belong to other roots.
      statistic = std::move(*found);
      return matchNorm();
    }
  return {};
}

/// Sets `x` to the value before centering, or to the normalized value if it is
/// not centered. Returns false if the subtracted mean is not that of a layer
/// norm.
bool NormMatcher::findCentered(const Expr *normalized, const Expr *&x) {
  x = normalized;
  if (!normalized)
    return true;
  std::optional<ExprSum> centered = getSum(normalized);
  if (!centered || centered->terms.size() != 2)
    return true;
  for (unsigned i : {0u, 1u}) {
    auto [mean, factor] = centered->terms[i];
    auto [value, one] = centered->terms[1 - i];
    if (mean->kind != ExprKind::Sum || one != 1.0)
      continue;
    double meanFactor = factor;
    RoundSet rounds = centered->rounds;
    const Expr *summed = peelConstants(mean->operand(0), meanFactor, rounds);
    if (atRoot(summed, mean->variable) != value)
      continue;
    layer = "layer_norm";
    x = value;
    if (!isSameNumber(-meanFactor, 1.0 / double(root.features())))
      refuse(RefusalKind::RaiseMeanCount, mean,
             llvm::formatv("factor {0:e} for {1} features", -meanFactor,
                           root.features()));
    else if (!mean->type.isF32())
      refuse(RefusalKind::RaiseNarrowSum, mean);
    else if (!mean->operand(1)->isConstant(0.0))
      refuse(RefusalKind::RaiseSumStart, mean);
    else if (!rounds.empty())
      refuse(RefusalKind::RaiseExtraRounding, rounds.front());
    else
      continue;
    return false;
  }
  return true;
}

/// Whether the statistic is a mean in f32 with a valid eps.
bool NormMatcher::checkStatistic() {
  if (!isSameNumber(statistic.factor, 1.0 / double(root.features()))) {
    bool unbiased =
        layer == "layer_norm" && root.features() > 1 &&
        isSameNumber(statistic.factor, 1.0 / double(root.features() - 1));
    refuse(unbiased ? RefusalKind::RaiseUnbiasedVariance
                    : RefusalKind::RaiseMeanCount,
           statistic.sum,
           llvm::formatv("factor {0:e} for {1} features", statistic.factor,
                         root.features()));
    return false;
  }
  if (!statistic.sum->type.isF32())
    refuse(RefusalKind::RaiseNarrowSum, statistic.sum);
  else if (!statistic.sum->operand(1)->isConstant(0.0))
    refuse(RefusalKind::RaiseSumStart, statistic.sum);
  else if (!(statistic.eps >= 0.0) ||
           std::isinf(static_cast<float>(statistic.eps)))
    refuse(RefusalKind::RaiseEps, statistic.variance,
           llvm::formatv("eps {0:e}", statistic.eps));
  else
    return true;
  return false;
}

Value NormMatcher::matchNorm() {
  // Split off the bias: the addend that is a vector.
  const Expr *scaled = root.body, *bias = nullptr;
  if (scaled->kind == ExprKind::Add) {
    for (unsigned i : {0u, 1u})
      if (getVector(scaled->operand(i))) {
        bias = scaled->operand(i), scaled = scaled->operand(1 - i);
        break;
      }
    if (!bias)
      return {};
  }

  const Expr *squared = statistic.squared;
  const Expr *normalized = nullptr;
  if (squared && statistic.sum)
    normalized = atRoot(squared, statistic.sum->variable);
  SmallVector<const Expr *, 2> atoms{statistic.variance};
  if (normalized)
    atoms.push_back(normalized);
  std::optional<ExprProduct> product = getProduct(scaled, atoms);
  if (!product)
    return {};
  if (product->exponentOf(statistic.variance) != -0.5) {
    for (const auto &[factor, exponent] : product->factors)
      if (factor->kind == ExprKind::Add && exponent == -1.0 && normalized &&
          product->exponentOf(normalized) == 1.0 &&
          llvm::is_contained(factor->operands, statistic.anchor) &&
          llvm::any_of(factor->operands,
                       [](const Expr *e) { return e->isConstant(); }))
        return refuse(RefusalKind::RaiseEpsPlace, factor);
    return {};
  }
  // The statistic without an input.
  if (product->factors.size() < 2)
    return {};
  if (ShapedType::isDynamic(root.features()))
    return refuse(RefusalKind::RaiseDynamicFeatures, root.expr);

  const Expr *x;
  if (!findCentered(normalized, x))
    return {};

  // From here on, the formula is a norm.
  if (!normalized) {
    if (isDifferenceOfMeans(statistic.variance))
      return refuse(RefusalKind::RaiseVarianceForm, statistic.variance);
    if (!squared || !statistic.sum)
      return refuse(RefusalKind::RaiseStatisticForm, statistic.variance);
    return refuse(RefusalKind::RaiseReducedDimension, statistic.sum);
  }
  if (product->exponentOf(normalized) != 1.0)
    return {};
  if (product->factors.size() > 3)
    return {};
  const Expr *weight = nullptr;
  for (const auto &[factor, exponent] : product->factors)
    if (factor != normalized && factor != statistic.variance) {
      if (exponent != 1.0)
        return {};
      weight = factor;
    }
  if (!checkStatistic())
    return {};
  if (!isSameNumber(product->coefficient, 1.0))
    return refuse(
        RefusalKind::RaiseConstant, root.body,
        llvm::formatv("factor {0:e}, expected 1", product->coefficient));
  if (!statistic.rounds.empty())
    return refuse(RefusalKind::RaiseExtraRounding, statistic.rounds.front());
  if (layer == "layer_norm")
    return buildLayerNorm(x, *product, weight, bias);
  // An rms norm has no bias; the sum is matched as another root.
  if (bias)
    return {};
  return buildRMSNorm(x, *product, weight);
}

/// Matches a weight vector, or one plus a weight vector.
std::optional<Weight> NormMatcher::matchWeight(const Expr *expr) {
  Weight weight;
  const Expr *sum = expr;
  if (sum->kind == ExprKind::Round) {
    weight.round = sum;
    sum = sum->operand(0);
  }
  if (std::optional<ExprSum> parts = getSum(sum);
      parts && parts->constant == 1.0 && parts->terms.size() == 1 &&
      parts->terms.front().second == 1.0 && parts->rounds.empty()) {
    weight.tensor = getVector(parts->terms.front().first);
    weight.offset = 1;
    if (weight.tensor)
      return weight;
  }
  // Any other vector is the weight itself.
  weight = Weight();
  weight.tensor = getVector(expr);
  if (!weight.tensor)
    return std::nullopt;
  return weight;
}

Value NormMatcher::buildRMSNorm(const Expr *x, const ExprProduct &product,
                                const Expr *weightExpr) {
  Value input = raiser.getTensor(root, x);
  if (!input)
    return refuse(RefusalKind::RaiseInputNotATensor, x);
  Type inputType = getElementTypeOrSelf(input.getType());

  Weight weight;
  if (weightExpr) {
    std::optional<Weight> found = matchWeight(weightExpr);
    if (!found)
      return refuse(RefusalKind::RaiseWeightShape, weightExpr);
    weight = *found;
  }
  // The layer has only one inner rounding: that of the normalized value to the
  // type of the input, before the weight.
  const Expr *round = nullptr;
  for (const Expr *candidate : product.rounds) {
    std::optional<ExprProduct> inner =
        getProduct(candidate->operand(0), {x, statistic.variance});
    bool isNormalized =
        inner && inner->factors.size() == 2 && inner->exponentOf(x) == 1.0 &&
        inner->exponentOf(statistic.variance) == -0.5 && inner->rounds.empty();
    if (round || !isNormalized || !weightExpr)
      return refuse(RefusalKind::RaiseExtraRounding, candidate);
    round = candidate;
  }
  if (round && round->type != inputType)
    return refuse(
        RefusalKind::RaiseNormCastType, round,
        llvm::formatv("rounded to {0}, input is {1}", round->type, inputType));

  NormCast cast = round || inputType.isF32() || !weight.tensor
                      ? NormCast::BeforeWeight
                      : NormCast::AfterWeight;
  if (weight.offset) {
    Type weightType = getElementTypeOrSelf(weight.tensor.getType());
    if (weight.round && weight.round->type != weightType)
      return refuse(RefusalKind::RaiseExtraRounding, weight.round);
    bool rounded = weight.round || weightType.isF32();
    bool kept = !weight.round;
    // With an f32 input, both casts differ only in the rounding of the sum.
    if (inputType.isF32() && !rounded)
      cast = NormCast::AfterWeight;
    if (cast == NormCast::BeforeWeight ? !rounded : !kept) {
      // If the sum is a tensor, it can be the weight.
      weight.tensor = getVector(weightExpr);
      weight.offset = 0;
      if (!weight.tensor)
        return refuse(RefusalKind::RaiseOffsetRounding,
                      weight.round ? weight.round : weightExpr);
    }
  }
  return RMSNormOp::create(
             raiser.builder, root.loc(), root.type, input, weight.tensor,
             raiser.builder.getF64FloatAttr(getShortest(statistic.eps)),
             raiser.builder.getI64IntegerAttr(weight.offset),
             NormCastAttr::get(root.type.getContext(), cast))
      .getY();
}

Value NormMatcher::buildLayerNorm(const Expr *x, const ExprProduct &product,
                                  const Expr *weightExpr, const Expr *bias) {
  Value input = raiser.getTensor(root, x);
  if (!input)
    return refuse(RefusalKind::RaiseInputNotATensor, x);
  if (!product.rounds.empty())
    return refuse(RefusalKind::RaiseExtraRounding, product.rounds.front());
  if (bias && !weightExpr)
    return refuse(RefusalKind::RaiseBiasWithoutWeight, bias);
  Value weight, biasVector;
  if (weightExpr) {
    weight = getVector(weightExpr);
    if (!weight)
      return refuse(RefusalKind::RaiseWeightShape, weightExpr);
  }
  if (bias)
    biasVector = getVector(bias);
  return LayerNormOp::create(
             raiser.builder, root.loc(), root.type, input, weight, biasVector,
             raiser.builder.getF64FloatAttr(getShortest(statistic.eps)))
      .getY();
}

Value fuse::raiseNorm(LayerRaiser &raiser, const LayerRoot &root) {
  return NormMatcher(raiser, root).match();
}
