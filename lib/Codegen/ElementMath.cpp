//===- ElementMath.cpp - What layers compute of single elements -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace fuse;

/// `element`, or a vector of as many as `like` has.
static Type withElement(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? Type(vector.clone(element)) : element;
}

Value fuse::constantF32(ImplicitLocOpBuilder &b, float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

/// A number beside `like`, which it is broadcast to.
static Value constantLike(ImplicitLocOpBuilder &b, Value like, float value) {
  auto vector = dyn_cast<VectorType>(like.getType());
  if (!vector)
    return constantF32(b, value);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vector.clone(b.getF32Type()), value));
}

Value fuse::widen(ImplicitLocOpBuilder &b, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isF32())
    return value;
  Type wide = withElement(value.getType(), b.getF32Type());
  if (element.isInteger())
    return arith::SIToFPOp::create(b, wide, value);
  return arith::ExtFOp::create(b, wide, value);
}

Value fuse::roundTo(ImplicitLocOpBuilder &b, Value value, Type element) {
  if (element.isF32())
    return value;
  return arith::TruncFOp::create(b, withElement(value.getType(), element),
                                 value);
}

/// Limits to [low, high]; NaN stays NaN.
static Value clamp(ImplicitLocOpBuilder &b, Value value, float low,
                   float high) {
  value = arith::MinimumFOp::create(b, value, constantLike(b, value, high));
  return arith::MaximumFOp::create(b, value, constantLike(b, value, low));
}

Value fuse::saturateTo(ImplicitLocOpBuilder &b, Value value, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    // A plain conversion gives NaN beyond the range of f8E4M3FN and infinity
    // beyond that of f8E5M2.
    float largest = llvm::APFloat::getLargest(floatType.getFloatSemantics())
                        .convertToFloat();
    return roundTo(b, clamp(b, value, -largest, largest), type);
  }
  value = math::RoundEvenOp::create(b, value);
  value = clamp(b, value, -128.0f, 127.0f);
  Value isNaN =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  value =
      arith::SelectOp::create(b, isNaN, constantLike(b, value, 0.0f), value);
  return arith::FPToSIOp::create(b, withElement(value.getType(), type), value);
}

/// An integer beside `like`, which it is broadcast to.
static Value integerLike(ImplicitLocOpBuilder &b, Value like, int64_t value) {
  IntegerAttr number = b.getIntegerAttr(getElementTypeOrSelf(like), value);
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, number));
  return arith::ConstantOp::create(b, number);
}

Value fuse::decodeFourBits(ImplicitLocOpBuilder &b, Value code, Type type) {
  Type f32 = withElement(code.getType(), b.getF32Type());
  auto number = [&](int64_t value) { return integerLike(b, code, value); };
  if (type.isUnsignedInteger())
    return arith::SIToFPOp::create(b, f32, code);
  if (type.isInteger()) {
    Value high = arith::ShLIOp::create(b, code, number(28));
    return arith::SIToFPOp::create(b, f32,
                                   arith::ShRSIOp::create(b, high, number(28)));
  }
  // The table of twice the magnitudes fits into one word, 4 bits for each.
  constexpr int64_t magnitudes = 0xC8643210;
  Value low = arith::AndIOp::create(b, code, number(7));
  Value shift = arith::ShLIOp::create(b, low, number(2));
  Value twice = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, number(int32_t(magnitudes)), shift),
      number(15));
  Value magnitude = mul(b, arith::SIToFPOp::create(b, f32, twice), 0.5f);
  Value sign = arith::ShLIOp::create(
      b, arith::AndIOp::create(b, code, number(8)), number(28));
  Value bits = arith::BitcastOp::create(b, code.getType(), magnitude);
  return arith::BitcastOp::create(b, f32, arith::OrIOp::create(b, bits, sign));
}

Value fuse::decodeExponent(ImplicitLocOpBuilder &b, Value byte) {
  auto number = [&](int64_t value) { return integerLike(b, byte, value); };
  auto equals = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, byte,
                                 number(value));
  };
  Value bits = arith::ShLIOp::create(b, byte, number(23));
  // 2^-127 is subnormal, and the last byte is NaN.
  bits = arith::SelectOp::create(b, equals(0), number(0x00400000), bits);
  bits = arith::SelectOp::create(b, equals(255), number(0x7FC00000), bits);
  return arith::BitcastOp::create(
      b, withElement(byte.getType(), b.getF32Type()), bits);
}

Value fuse::mul(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  return arith::MulFOp::create(b, lhs, rhs);
}

Value fuse::mul(ImplicitLocOpBuilder &b, Value lhs, float rhs) {
  return mul(b, lhs, constantLike(b, lhs, rhs));
}

Value fuse::add(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  return arith::AddFOp::create(b, lhs, rhs);
}

Value fuse::addOne(ImplicitLocOpBuilder &b, Value value) {
  return add(b, value, constantLike(b, value, 1.0f));
}

/// `x / (1 + exp(-slope * x))`.
static Value swish(ImplicitLocOpBuilder &b, Value x, float slope) {
  Value minus = slope == 1.0f ? arith::NegFOp::create(b, x).getResult()
                              : mul(b, x, -slope);
  Value exp = math::ExpOp::create(b, minus);
  return arith::DivFOp::create(b, x, addOne(b, exp));
}

Value fuse::activate(ImplicitLocOpBuilder &b, Activation kind, Value x) {
  constexpr float sqrtHalf = 0.707106781186547524f;
  constexpr float sqrtTwoOverPi = 0.797884560802865356f;
  switch (kind) {
  case Activation::SiLU:
    return swish(b, x, 1.0f);
  case Activation::QuickGELU:
    return swish(b, x, 1.702f);
  case Activation::GELU: {
    Value erf = math::ErfOp::create(b, mul(b, x, sqrtHalf));
    return mul(b, mul(b, x, 0.5f), addOne(b, erf));
  }
  case Activation::GELUTanh: {
    Value cube = mul(b, mul(b, x, x), x);
    Value inner = mul(b, add(b, x, mul(b, cube, 0.044715f)), sqrtTwoOverPi);
    Value tanh = math::TanhOp::create(b, inner);
    return mul(b, mul(b, x, 0.5f), addOne(b, tanh));
  }
  case Activation::ReLU:
    return arith::MaximumFOp::create(b, x, constantLike(b, x, 0.0f));
  case Activation::ReLU2: {
    Value positive = arith::MaximumFOp::create(b, x, constantLike(b, x, 0.0f));
    return mul(b, positive, positive);
  }
  }
  llvm_unreachable("unknown activation");
}

Value fuse::reciprocalRoot(ImplicitLocOpBuilder &b, Value sum, int64_t count,
                           float eps) {
  Value size = constantF32(b, static_cast<float>(count));
  Value mean = arith::DivFOp::create(b, sum, size);
  return math::RsqrtOp::create(b, add(b, mean, constantF32(b, eps)));
}

Value fuse::normalizeRMS(ImplicitLocOpBuilder &b, Value x, Value scale,
                         Value weight, NormCast cast, int64_t offset) {
  Type xElement = getElementTypeOrSelf(x.getType());
  Value value = mul(b, widen(b, x), scale);
  if (!weight)
    return value;
  bool early = cast == NormCast::BeforeWeight;
  if (early)
    value = widen(b, roundTo(b, value, xElement));
  Value factor = widen(b, weight);
  if (offset != 0) {
    factor = addOne(b, factor);
    if (early)
      factor =
          widen(b, roundTo(b, factor, getElementTypeOrSelf(weight.getType())));
  }
  return mul(b, value, factor);
}

Value fuse::normalizeLayer(ImplicitLocOpBuilder &b, Value centered, Value scale,
                           Value weight, Value bias) {
  Value value = mul(b, centered, scale);
  if (weight)
    value = mul(b, value, widen(b, weight));
  if (bias)
    value = add(b, value, widen(b, bias));
  return value;
}
