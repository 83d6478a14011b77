//===- RaiseLayersQuantize.cpp - Recognize quantization -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cast to a stored type identifies a quantize, a product with a stored value
// a dequantize. A cast without saturation is not a quantize: values out of
// range would become NaN or poison instead of the largest code.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "fuse/IR/FuseVerify.h"
#include "llvm/Support/FormatVariadic.h"

#include <charconv>
#include <cmath>

using namespace mlir;
using namespace fuse;

namespace {

/// A scale as an attribute or as an operand.
struct Scale {
  std::optional<double> number;
  Value channel;
};

/// The clamps and roundings between the scaled value and the cast.
struct Saturation {
  std::optional<double> lower, upper;
  const Expr *replacesNaN = nullptr;
  const Expr *rounding = nullptr;
  const Expr *narrowed = nullptr;
};

} // namespace

static bool isSaturation(ExprKind kind) {
  return kind == ExprKind::Max || kind == ExprKind::MaxNum ||
         kind == ExprKind::Min || kind == ExprKind::MinNum ||
         kind == ExprKind::RoundEven || kind == ExprKind::RoundAway;
}

/// Strips clamps and roundings from `expr`.
static const Expr *readSaturation(const Expr *expr, Saturation &saturation) {
  while (true) {
    switch (expr->kind) {
    case ExprKind::Max:
    case ExprKind::MaxNum:
    case ExprKind::Min:
    case ExprKind::MinNum: {
      bool isLower =
          expr->kind == ExprKind::Max || expr->kind == ExprKind::MaxNum;
      std::optional<double> &limit =
          isLower ? saturation.lower : saturation.upper;
      unsigned position = expr->operand(0)->isConstant() ? 0 : 1;
      if (limit || !expr->operand(position)->isConstant() ||
          expr->operand(1 - position)->isConstant())
        return expr;
      if (expr->kind == ExprKind::MaxNum || expr->kind == ExprKind::MinNum)
        saturation.replacesNaN = expr;
      limit = expr->operand(position)->value;
      expr = expr->operand(1 - position);
      break;
    }
    case ExprKind::RoundEven:
    case ExprKind::RoundAway:
      if (saturation.rounding)
        return expr;
      saturation.rounding = expr;
      expr = expr->operand(0);
      break;
    case ExprKind::Round:
      // Rounds the clamped value; a rounding below may be that of the input.
      if (saturation.narrowed || !isSaturation(expr->operand(0)->kind))
        return expr;
      saturation.narrowed = expr;
      expr = expr->operand(0);
      break;
    default:
      return expr;
    }
  }
}

/// The f32 number whose reciprocal in f32 is `factor`; the shortest one if
/// there are several.
static std::optional<double> getScaleOfReciprocal(double factor) {
  auto wanted = static_cast<float>(factor);
  if (!(wanted > 0.0f) || std::isinf(wanted))
    return std::nullopt;
  float candidate = 1.0f / wanted;
  for (int i = 0; i < 2; ++i)
    candidate = std::nextafter(candidate, 0.0f);
  std::optional<double> best;
  size_t bestLength = 0;
  for (int i = 0; i < 5; ++i) {
    char text[32];
    size_t length =
        std::to_chars(text, text + sizeof(text), candidate).ptr - text;
    if (1.0f / candidate == wanted && (!best || length < bestLength)) {
      best = getShortest(candidate);
      bestLength = length;
    }
    candidate = std::nextafter(candidate, INFINITY);
  }
  return best;
}

/// The largest finite code of a stored type, and the smallest.
static std::pair<double, double> getRange(Type type) {
  if (type.isInteger())
    return {-128.0, 127.0};
  double largest =
      APFloat::getLargest(cast<FloatType>(type).getFloatSemantics())
          .convertToDouble();
  return {-largest, largest};
}

static Value missQuantize(LayerRaiser &raiser, const LayerRoot &root,
                          RefusalKind kind, const Expr *at,
                          std::string detail = {}) {
  return raiser.refuse(root, root.expr, "quantize", kind, at,
                       std::move(detail));
}

/// Reads `value` as `x / scale` or `x * (1 / scale)`. Returns x, or null after
/// a refusal.
static const Expr *readScaled(LayerRaiser &raiser, const LayerRoot &root,
                              const Expr *value, Scale &scale,
                              QuantOrder &order) {
  // Reads `expr` as the divisor and returns its scale.
  auto readDivisor = [&](const Expr *expr) {
    if (expr->isConstant())
      scale.number = getShortest(expr->value);
    else if (!root.type.isDynamicDim(0))
      scale.channel =
          raiser.getVector(root, expr, /*dim=*/0, root.type.getDimSize(0));
    if (scale.channel && !getElementTypeOrSelf(scale.channel.getType()).isF32())
      scale.channel = nullptr;
    return scale.number || scale.channel;
  };
  order = QuantOrder::Reciprocal;
  if (value->kind == ExprKind::Div && readDivisor(value->operand(1))) {
    order = QuantOrder::Divide;
    return value->operand(0);
  }
  if (value->kind == ExprKind::Mul)
    for (unsigned i : {0u, 1u}) {
      const Expr *factor = value->operand(i);
      if (factor->kind == ExprKind::Div &&
          factor->operand(0)->isConstant(1.0) &&
          readDivisor(factor->operand(1)))
        return value->operand(1 - i);
      if (!factor->isConstant())
        continue;
      scale.number = getScaleOfReciprocal(factor->value);
      if (scale.number)
        return value->operand(1 - i);
      missQuantize(raiser, root, RefusalKind::RaiseScaleValue, value,
                   llvm::formatv("factor {0:e}", factor->value));
      return nullptr;
    }
  if (value->kind == ExprKind::Mul || value->kind == ExprKind::Div) {
    missQuantize(raiser, root, RefusalKind::RaiseScaleNotStatic, value);
    return nullptr;
  }
  scale.number = 1.0;
  return value;
}

Value fuse::raiseQuantize(LayerRaiser &raiser, const LayerRoot &root) {
  Type stored = root.element();
  if (!isQuantized(stored) || root.body == root.expr)
    return {};
  Saturation saturation;
  const Expr *scaled = readSaturation(root.body, saturation);
  if (scaled->isConstant())
    return {};
  if (!saturation.lower || !saturation.upper)
    return missQuantize(raiser, root, RefusalKind::RaiseMissingClamp,
                        root.expr);
  auto [lower, upper] = getRange(stored);
  if (*saturation.lower != lower || *saturation.upper != upper)
    return missQuantize(raiser, root, RefusalKind::RaiseClampRange, root.body,
                        llvm::formatv("clamped to {0} and {1}, {2} has {3} "
                                      "and {4}",
                                      *saturation.lower, *saturation.upper,
                                      stored, lower, upper));
  if (saturation.replacesNaN)
    return missQuantize(raiser, root, RefusalKind::RaiseNaN,
                        saturation.replacesNaN);
  bool needsRounding = stored.isInteger();
  bool isEven =
      saturation.rounding && saturation.rounding->kind == ExprKind::RoundEven;
  if (needsRounding ? !isEven : saturation.rounding != nullptr)
    return missQuantize(raiser, root, RefusalKind::RaiseNoRounding,
                        saturation.rounding ? saturation.rounding : root.expr);

  Scale scale;
  QuantOrder order;
  const Expr *product = scaled;
  // A product in a narrow type is rounded before it is clamped.
  bool isProduct = scaled->kind == ExprKind::Round &&
                   (scaled->operand(0)->kind == ExprKind::Mul ||
                    scaled->operand(0)->kind == ExprKind::Div) &&
                   llvm::any_of(scaled->operand(0)->operands,
                                [](const Expr *e) { return e->isConstant(); });
  if (saturation.narrowed || isProduct)
    return missQuantize(raiser, root, RefusalKind::RaiseExtraRounding,
                        saturation.narrowed ? saturation.narrowed : scaled);
  const Expr *x = readScaled(raiser, root, product, scale, order);
  if (!x)
    return {};
  if (scale.number)
    if (auto problem = getScaleProblem(*scale.number))
      return missQuantize(raiser, root, RefusalKind::RaiseScaleValue, scaled,
                          llvm::formatv("scale {0:e}", *scale.number));
  Value input = raiser.getTensor(root, x);
  if (!input)
    return missQuantize(raiser, root, RefusalKind::RaiseInputNotATensor, x);
  if (ShapedType::isDynamic(root.features()))
    return missQuantize(raiser, root, RefusalKind::RaiseDynamicFeatures,
                        root.expr);
  return QuantizeOp::create(
             raiser.builder, root.loc(), root.type, input, scale.channel,
             scale.number ? raiser.builder.getF64FloatAttr(*scale.number)
                          : FloatAttr(),
             QuantOrderAttr::get(root.type.getContext(), order))
      .getQ();
}

/// Whether `expr` is an element of a tensor of a stored type or a value that is
/// cast to one.
static bool isStored(const Expr *expr) {
  if (expr->kind == ExprKind::Leaf)
    return isQuantized(expr->type) && !expr->index.empty();
  return (expr->kind == ExprKind::Round || expr->kind == ExprKind::ToInt) &&
         isQuantized(expr->type);
}

/// Whether a tensor holds the product `expr`, which may be rounded. A
/// dequantize of that tensor is matched at its own root.
static bool isHeldProduct(const Expr *expr) {
  const Expr *inner = expr->kind == ExprKind::Round ? expr->operand(0) : expr;
  return (inner->kind == ExprKind::Mul || inner->kind == ExprKind::Div) &&
         !(expr->origins.empty() && inner->origins.empty());
}

/// Finds the stored value in the first few nodes of `expr`, or null. Of the
/// factors of two tensors, only those are considered that are not dequantized
/// themselves.
static const Expr *findStored(const Expr *expr) {
  constexpr unsigned limit = 8;
  SmallVector<const Expr *, limit> nodes{expr};
  for (unsigned i = 0; i < nodes.size() && i < limit; ++i) {
    const Expr *node = nodes[i];
    if (isStored(node))
      return node;
    bool hasConstant = llvm::any_of(
        node->operands, [](const Expr *e) { return e->isConstant(); });
    for (const Expr *operand : node->operands)
      if (hasConstant || !isHeldProduct(operand))
        nodes.push_back(operand);
  }
  return nullptr;
}

/// Whether no tensor holds the stored value, because both casts are in the body
/// of one linalg op.
static bool isCastInBody(const Expr *stored) {
  return stored->kind != ExprKind::Leaf &&
         llvm::none_of(stored->origins, [](const auto &origin) {
           return isQuantized(getElementTypeOrSelf(origin.first));
         });
}

/// Creates the quantize whose result `stored` is.
static Value quantizeAtRoot(LayerRaiser &raiser, const LayerRoot &root,
                            const Expr *stored) {
  auto type = RankedTensorType::get(root.type.getShape(), stored->type);
  LayerRoot cast{root.value, type, root.index, stored, stored->operand(0)};
  return raiseQuantize(raiser, cast);
}

Value fuse::raiseDequantize(LayerRaiser &raiser, const LayerRoot &root) {
  const Expr *body = root.body;
  bool isScaled = body->kind == ExprKind::Mul || body->kind == ExprKind::Div;
  const Expr *stored = isScaled ? findStored(body) : nullptr;
  if (!stored)
    return {};
  auto refuse = [&](RefusalKind kind, const Expr *at) {
    return raiser.refuse(root, body, "dequantize", kind, at);
  };
  Value q = TensorExprs::findTensor(
      stored, root.index, root.type.getShape(), [&](Value tensor) {
        return isQuantized(getElementTypeOrSelf(tensor)) && root.sees(tensor);
      });
  std::optional<ExprProduct> product = getProduct(body, stored);
  if ((!q && !isCastInBody(stored)) || !product || product->factors.size() > 2)
    return {};
  if (product->exponentOf(stored) != 1.0) {
    for (const auto &[factor, exponent] : product->factors)
      if ((factor->kind == ExprKind::Sub || factor->kind == ExprKind::Add) &&
          llvm::is_contained(factor->operands, stored))
        return refuse(RefusalKind::RaiseZeroPoint, factor);
    return {};
  }
  if (body->kind == ExprKind::Div && !body->operand(0)->isConstant())
    return refuse(RefusalKind::RaiseInvertedScale, body);
  if (!product->rounds.empty())
    return refuse(RefusalKind::RaiseExtraRounding, product->rounds.front());

  Value channel;
  FloatAttr number;
  if (product->factors.size() == 2) {
    const Expr *factor = product->factors[0].first == stored
                             ? product->factors[1].first
                             : product->factors[0].first;
    if (product->coefficient == 1.0 && product->exponentOf(factor) == 1.0 &&
        !root.type.isDynamicDim(0))
      channel =
          raiser.getVector(root, factor, /*dim=*/0, root.type.getDimSize(0));
    if (!channel || !getElementTypeOrSelf(channel.getType()).isF32())
      return refuse(RefusalKind::RaiseScaleNotStatic, factor);
  } else {
    double scale = getShortest(product->coefficient);
    if (getScaleProblem(scale))
      return refuse(RefusalKind::RaiseScaleValue, body);
    number = raiser.builder.getF64FloatAttr(scale);
  }
  if (ShapedType::isDynamic(root.features()))
    return refuse(RefusalKind::RaiseDynamicFeatures, root.expr);
  if (!q)
    q = quantizeAtRoot(raiser, root, stored);
  if (!q)
    return {};
  return DequantizeOp::create(raiser.builder, root.loc(), root.type, q, channel,
                              number)
      .getX();
}
