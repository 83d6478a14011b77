//===- RaiseLayersNorm.cpp - Recognize norms ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The square root of a mean identifies a norm; see NormStatistic.h. The squared
// value under the mean is the input or the centered input, the constant added
// to the mean is eps, and the remaining factor is the weight. The places of the
// roundings decide between the variants of an rms norm.
//
//===----------------------------------------------------------------------===//

#include "NormStatistic.h"
#include "RaiseLayers.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

namespace {

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
  bool checkMean(const Expr *mean, double factor, const RoundSet &rounds);
  std::optional<ExprProduct> matchProduct(const Expr *scaled,
                                          const Expr *&normalized);
  const Expr *matchDistributed(const Expr *sum);
  Value refuseDenominator(const ExprProduct &product);
  void absorbCoefficient(ExprProduct &product);
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
  NormStatistic statistic;
  StringRef layer = "rms_norm";
  /// Whether the weight is one plus the factor of the normalized value, and the
  /// roundings of the term without that factor.
  bool isDistributed = false;
  RoundSet distributed;
};

} // namespace

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
  std::optional<NormStatistic> nearMiss;
  for (const Expr *node : getNodes(root.body, /*limit=*/48))
    if (std::optional<NormStatistic> found = getNormStatistic(node)) {
      if (!found->sum && !found->squared) {
        if (!nearMiss)
          nearMiss = std::move(found);
        continue;
      }
      // Statistics deeper in the expression belong to other roots.
      statistic = std::move(*found);
      return matchNorm();
    }
  if (!nearMiss)
    return {};
  statistic = std::move(*nearMiss);
  return matchNorm();
}

/// Sets `x` to the value before centering, or to the normalized value if it is
/// not centered. Returns false if the subtracted mean is not that of a layer
/// norm.
bool NormMatcher::findCentered(const Expr *normalized, const Expr *&x) {
  x = normalized;
  if (!normalized)
    return true;
  for (const Expr *mean : getNodes(normalized, /*limit=*/24)) {
    if (mean->kind != ExprKind::Sum)
      continue;
    // The summed value can be a sum or a product itself, so it is tried whole
    // before its constant factors are taken for those of the mean.
    double inner = 1.0;
    RoundSet rounds;
    for (const Expr *summed = mean->operand(0); summed;
         summed = peelConstant(summed, inner, rounds)) {
      const Expr *value = atRoot(summed, mean->variable);
      if (!value)
        continue;
      std::optional<ExprSum> centered = getSum(normalized, {value, mean});
      if (!centered || centered->terms.size() != 2 ||
          centered->constant != 0.0 || centered->factorOf(value) != 1.0 ||
          centered->factorOf(mean) == 0.0)
        continue;
      x = value;
      rounds.insert(centered->rounds.begin(), centered->rounds.end());
      return checkMean(mean, -inner * centered->factorOf(mean), rounds);
    }
  }
  return true;
}

/// Whether `mean` times `factor` is the mean of a layer norm.
bool NormMatcher::checkMean(const Expr *mean, double factor,
                            const RoundSet &rounds) {
  layer = "layer_norm";
  if (!isSameNumber(factor, 1.0 / double(root.features())))
    refuse(RefusalKind::RaiseMeanCount, mean,
           llvm::formatv("factor {0:e} for {1} features", factor,
                         root.features()));
  else if (!mean->type.isF32())
    refuse(RefusalKind::RaiseNarrowSum, mean);
  else if (!mean->operand(1)->isConstant(0.0))
    refuse(RefusalKind::RaiseSumStart, mean);
  else if (!rounds.empty())
    refuse(RefusalKind::RaiseExtraRounding, rounds.front());
  else
    return true;
  return false;
}

/// Sets `normalized` to the value that is squared under the mean, if it is a
/// tensor. `|x|` and `-x` have the square of `x`, so the one that is a factor
/// of the result is chosen.
std::optional<ExprProduct> NormMatcher::matchProduct(const Expr *scaled,
                                                     const Expr *&normalized) {
  normalized = nullptr;
  if (statistic.sum)
    for (const Expr *base = statistic.squared; base;) {
      if (const Expr *value = atRoot(base, statistic.sum->variable)) {
        std::optional<ExprProduct> product =
            getProduct(scaled, {statistic.variance, value});
        if (product && product->exponentOf(value) == 1.0) {
          normalized = value;
          return product;
        }
        if (!normalized)
          normalized = value;
      }
      bool hasSign = base->kind == ExprKind::Abs || base->kind == ExprKind::Neg;
      base = hasSign ? base->operand(0) : nullptr;
    }
  SmallVector<const Expr *, 2> atoms{statistic.variance};
  if (normalized)
    atoms.push_back(normalized);
  return getProduct(scaled, atoms);
}

/// Reads `n * weight + n`, the product `n * (1 + weight)` written as a sum.
/// Returns the product `n * weight`.
const Expr *NormMatcher::matchDistributed(const Expr *sum) {
  for (unsigned i : {0u, 1u}) {
    const Expr *plain = sum->operand(i), *weighted = sum->operand(1 - i);
    const Expr *normalized;
    std::optional<ExprProduct> product = matchProduct(plain, normalized);
    if (!product || !normalized || product->factors.size() != 2 ||
        product->exponentOf(normalized) != 1.0 ||
        product->exponentOf(statistic.variance) != -0.5)
      continue;
    std::optional<ExprProduct> other =
        getProduct(weighted, {statistic.variance, normalized});
    if (!other || other->factors.size() != 3 ||
        other->exponentOf(normalized) != 1.0 ||
        other->exponentOf(statistic.variance) != -0.5 ||
        other->coefficient != product->coefficient)
      continue;
    distributed = product->rounds;
    isDistributed = true;
    return weighted;
  }
  return nullptr;
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

/// Reports a formula with the root in its denominator, if it is nearly a norm.
Value NormMatcher::refuseDenominator(const ExprProduct &product) {
  for (const auto &[factor, exponent] : product.factors) {
    if (exponent != -1.0 ||
        !llvm::is_contained(factor->operands, statistic.anchor))
      continue;
    if (getClamped(factor))
      return refuse(RefusalKind::RaiseClampedNorm, factor);
    if (factor->kind == ExprKind::Add &&
        llvm::any_of(factor->operands,
                     [](const Expr *e) { return e->isConstant(); }))
      return refuse(RefusalKind::RaiseEpsPlace, factor);
  }
  return {};
}

Value NormMatcher::matchNorm() {
  // Split off the bias: the addend that is a vector.
  const Expr *scaled = root.body, *bias = nullptr;
  if (scaled->kind == ExprKind::Add)
    for (unsigned i : {0u, 1u})
      if (getVector(scaled->operand(i))) {
        bias = scaled->operand(i), scaled = scaled->operand(1 - i);
        break;
      }
  if (scaled->kind == ExprKind::Add) {
    scaled = matchDistributed(scaled);
    if (!scaled)
      return {};
  }

  const Expr *normalized;
  std::optional<ExprProduct> product = matchProduct(scaled, normalized);
  if (!product)
    return {};
  if (product->exponentOf(statistic.variance) != -0.5)
    return normalized && product->exponentOf(normalized) == 1.0
               ? refuseDenominator(*product)
               : Value();
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
    if (isDifferenceOfMeans(statistic.variance)) {
      layer = "layer_norm";
      return refuse(RefusalKind::RaiseVarianceForm, statistic.variance);
    }
    if (statistic.squared && statistic.sum)
      return refuse(RefusalKind::RaiseReducedDimension, statistic.sum);
    // A norm has one statistic per row.
    if (variesWith(statistic.variance, root.lastDim()))
      return {};
    return refuse(statistic.problem, statistic.variance);
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
  absorbCoefficient(*product);
  if (!checkStatistic())
    return {};
  if (!isSameNumber(product->coefficient, 1.0))
    return refuse(
        RefusalKind::RaiseConstant, root.body,
        llvm::formatv("factor {0:e}, expected 1", product->coefficient));
  if (!statistic.rounds.empty())
    return refuse(RefusalKind::RaiseExtraRounding, statistic.rounds.front());
  if (!distributed.empty())
    return refuse(RefusalKind::RaiseExtraRounding, distributed.front());
  if (layer == "layer_norm")
    return buildLayerNorm(x, *product, weight, bias);
  // An rms norm has no bias; the sum is matched as another root.
  if (bias)
    return {};
  return buildRMSNorm(x, *product, weight);
}

/// `c * x / sqrt(f * sum(x^2) + e)` is `x / sqrt(f / c^2 * sum(x^2) + e /
/// c^2)`, for example with the root of the number of features as `c` and 1 as
/// `f`.
void NormMatcher::absorbCoefficient(ExprProduct &product) {
  double square = product.coefficient * product.coefficient;
  if (!(product.coefficient > 0.0) || product.coefficient == 1.0 ||
      !isSameNumber(statistic.factor / square, 1.0 / double(root.features())))
    return;
  statistic.factor /= square;
  statistic.eps /= square;
  product.coefficient = 1.0;
}

/// Matches a weight vector, or one plus a weight vector.
std::optional<Weight> NormMatcher::matchWeight(const Expr *expr) {
  Weight weight;
  if (isDistributed) {
    weight.tensor = getVector(expr);
    weight.offset = 1;
    return weight.tensor ? std::optional<Weight>(weight) : std::nullopt;
  }
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
    // As a sum of two terms, the product is rounded once.
    if (isDistributed && !inputType.isF32())
      cast = NormCast::AfterWeight;
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
  if (isDistributed)
    return refuse(RefusalKind::RaiseWeightShape, root.body,
                  "one plus the weight is not a tensor");
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
