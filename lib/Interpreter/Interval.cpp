//===- Interval.cpp - Intervals of values that contracts allow ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Interpreter/Interval.h"
#include "llvm/ADT/APFloat.h"

#include <cstring>
#include <limits>

using namespace mlir;
using namespace fuse;
using llvm::APFloat;

static constexpr auto kNearest = APFloat::rmNearestTiesToEven;
static constexpr double kLargestF32 = std::numeric_limits<float>::max();

static double convert(double value, const llvm::fltSemantics &semantics) {
  APFloat number(value);
  bool inexact;
  number.convert(semantics, kNearest, &inexact);
  // Formats without infinities convert to NaN beyond their largest value.
  number.convert(APFloat::IEEEdouble(), kNearest, &inexact);
  return number.convertToDouble();
}

double fuse::getLargest(Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    APFloat number = APFloat::getLargest(floatType.getFloatSemantics());
    bool inexact;
    number.convert(APFloat::IEEEdouble(), kNearest, &inexact);
    return number.convertToDouble();
  }
  return std::ldexp(1.0, type.getIntOrFloatBitWidth() - 1) - 1.0;
}

double fuse::roundTo(double value, Type type) {
  return convert(value, cast<FloatType>(type).getFloatSemantics());
}

Interval fuse::roundTo(Interval value, Type type) {
  if (value.isAnything)
    return value;
  double lo = roundTo(value.lo, type);
  return Interval(lo, value.isPoint() ? lo : roundTo(value.hi, type));
}

static double saturate(double value, Type type) {
  double largest = getLargest(type);
  if (isa<FloatType>(type))
    return std::isnan(value)
               ? value
               : roundTo(std::clamp(value, -largest, largest), type);
  if (std::isnan(value))
    return 0.0;
  APFloat number(value);
  number.roundToIntegral(kNearest);
  return std::clamp(number.convertToDouble(), -largest - 1.0, largest);
}

Interval fuse::saturateTo(Interval value, Type type) {
  // An integer is finite, so any value gives the full range of the type.
  if (value.isAnything)
    return isa<FloatType>(type)
               ? value
               : Interval(-getLargest(type) - 1.0, getLargest(type));
  return Interval(saturate(value.lo, type), saturate(value.hi, type));
}

double fuse::f32(double value) { return convert(value, APFloat::IEEEsingle()); }

Interval fuse::f32(Interval value) {
  if (value.isAnything)
    return value;
  double lo = f32(value.lo);
  return Interval(lo, value.isPoint() ? lo : f32(value.hi));
}

static APFloat single(double value) {
  APFloat number(value);
  bool inexact;
  number.convert(APFloat::IEEEsingle(), kNearest, &inexact);
  return number;
}

/// Hull of a function that is monotone in each operand.
static Interval
mapCorners(Interval lhs, Interval rhs,
           llvm::function_ref<double(double, double)> function) {
  if (lhs.isAnything || rhs.isAnything)
    return Interval::anything();
  double first = function(lhs.lo, rhs.lo);
  if (lhs.isPoint() && rhs.isPoint())
    return first;
  // Infinity times 0 and infinity minus infinity may occur.
  if (!lhs.isFinite() || !rhs.isFinite())
    return lhs.isNaN() || rhs.isNaN() ? Interval(std::nan(""))
                                      : Interval::anything();
  double others[] = {function(lhs.lo, rhs.hi), function(lhs.hi, rhs.lo),
                     function(lhs.hi, rhs.hi)};
  Interval result = first;
  for (double other : others)
    result = result.hull(other);
  return result;
}

Interval fuse::add(Interval lhs, Interval rhs) {
  return mapCorners(lhs, rhs, [](double x, double y) {
    APFloat sum = single(x);
    sum.add(single(y), kNearest);
    return double(sum.convertToFloat());
  });
}

Interval fuse::mul(Interval lhs, Interval rhs) {
  return mapCorners(lhs, rhs, [](double x, double y) {
    APFloat product = single(x);
    product.multiply(single(y), kNearest);
    return double(product.convertToFloat());
  });
}

Interval fuse::div(Interval lhs, Interval rhs) {
  return mapCorners(lhs, rhs, [](double x, double y) {
    APFloat quotient = single(x);
    quotient.divide(single(y), kNearest);
    return double(quotient.convertToFloat());
  });
}

Interval fuse::mulAdd(Interval lhs, Interval rhs, Interval addend) {
  Interval separate = add(mul(lhs, rhs), addend);
  if (addend.isAnything || !lhs.isFinite() || !rhs.isFinite())
    return separate;
  Interval fused = separate;
  for (double last : {addend.lo, addend.hi})
    fused = fused.hull(mapCorners(lhs, rhs, [&](double x, double y) {
      APFloat sum = single(x);
      sum.fusedMultiplyAdd(single(y), single(last), kNearest);
      return double(sum.convertToFloat());
    }));
  return fused;
}

Interval fuse::max(Interval lhs, Interval rhs) {
  if (lhs.isNaN() || rhs.isNaN())
    return std::nan("");
  if (lhs.isAnything || rhs.isAnything)
    return Interval::anything();
  return Interval(std::max(lhs.lo, rhs.lo), std::max(lhs.hi, rhs.hi));
}

Interval fuse::min(Interval lhs, Interval rhs) {
  if (lhs.isNaN() || rhs.isNaN())
    return std::nan("");
  if (lhs.isAnything || rhs.isAnything)
    return Interval::anything();
  return Interval(std::min(lhs.lo, rhs.lo), std::min(lhs.hi, rhs.hi));
}

Interval fuse::mapUnimodal(Interval value,
                           llvm::function_ref<double(double)> function,
                           double turn, double relative, double absolute) {
  if (value.isAnything || value.isNaN())
    return value;
  Interval result = Interval(function(value.lo)).hull(function(value.hi));
  if (value.lo < turn && turn < value.hi)
    result = result.hull(function(turn));
  return f32(result.widen(relative * result.getMagnitude() + absolute));
}

/// The exponent of the lowest set bit.
static int getLowestBit(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  uint64_t mantissa = bits & ((uint64_t(1) << 52) - 1);
  int exponent = (bits >> 52) & 0x7FF;
  if (exponent == 0)
    return mantissa ? -1074 : 4096;
  mantissa |= uint64_t(1) << 52;
  return exponent - 1075 + __builtin_ctzll(mantissa);
}

/// The hardware treats zero and denormals of f8E4M3FN as having the exponent of
/// the smallest normal number.
static double getNominal(Interval value) {
  return std::max(value.getMagnitude(), 0x1p-6);
}

void Sum::add(Interval lhs, Interval rhs) {
  ++count;
  if (isAligned && lhs.isFinite() && rhs.isFinite()) {
    largest = std::max(largest, getNominal(lhs) * getNominal(rhs));
    auto [least, most] = std::minmax(
        {lhs.lo * rhs.lo, lhs.lo * rhs.hi, lhs.hi * rhs.lo, lhs.hi * rhs.hi});
    products.push_back(Interval(least, most));
  }
  if (lhs.isAnything || rhs.isAnything) {
    isAnything = true;
    return;
  }
  if (lhs.isPoint() && rhs.isPoint()) {
    double product = lhs.lo * rhs.lo;
    if (std::isfinite(product)) {
      lo += product;
      hi += product;
      magnitude += std::fabs(product);
      if (product != 0.0)
        lowest = std::min(lowest, getLowestBit(product));
      return;
    }
    isNaN |= std::isnan(product);
    hasPlus |= product > 0.0;
    hasMinus |= product < 0.0;
    return;
  }
  if (!lhs.isFinite() || !rhs.isFinite()) {
    isAnything = true;
    return;
  }
  isPoint = false;
  double products[] = {lhs.lo * rhs.lo, lhs.lo * rhs.hi, lhs.hi * rhs.lo,
                       lhs.hi * rhs.hi};
  auto [least, most] = std::minmax_element(products, products + 4);
  lo += *least;
  hi += *most;
  magnitude += std::max(std::fabs(*least), std::fabs(*most));
}

Interval Sum::get() const {
  if (isAnything)
    return Interval::anything();
  if (isNaN || (hasPlus && hasMinus))
    return std::nan("");
  if (hasPlus || hasMinus) {
    // A finite partial sum that is too large could become the opposite
    // infinity.
    if (magnitude >= kLargestF32)
      return Interval::anything();
    return hasPlus ? std::numeric_limits<double>::infinity()
                   : -std::numeric_limits<double>::infinity();
  }
  if (magnitude >= kLargestF32)
    return Interval::anything();
  // No order rounds multiples of one power of two that fit in 24 bits.
  if (isPoint && lowest >= -149 && magnitude <= std::ldexp(1.0, lowest + 24))
    return isAligned ? align(lo) : Interval(lo);
  double room = magnitude * kUnit * double(count) * 1.01 +
                double(count) * std::numeric_limits<float>::denorm_min();
  Interval sum = f32(Interval(lo - room, hi + room));
  return isAligned ? f32(align(sum)) : sum;
}

Interval Sum::getOfParts() const {
  Interval sum = get();
  // No rounding to bf16 occurs if every partial sum fits in 8 bits.
  if (!sum.isFinite() ||
      (isPoint && lowest >= -133 && magnitude <= std::ldexp(1.0, lowest + 8)))
    return sum;
  double room = magnitude * 0x1p-8 * 1.01 + double(count) * 0x1p-134;
  return f32(Interval(sum.lo - room, sum.hi + room));
}

/// Truncation is towards zero. A product loses at most its whole value, and
/// less than the last kept bit at the largest possible exponent. The sum loses
/// as much twice per 32 products: when it is aligned, and after the addition.
/// Another order of the products changes the groups of 32, but not the bounds.
Interval Sum::align(Interval sum) const {
  double positive = 0.0, negative = 0.0;
  for (Interval product : products) {
    positive += std::max(product.hi, 0.0);
    negative -= std::min(product.lo, 0.0);
  }
  // No partial sum exceeds the sum of all products of one sign, apart from bits
  // that were cut off products of the other sign.
  double cuts = 2.0 * std::ceil(double(count) / 32.0) + 2.0;
  double most = std::max({positive, negative, largest});
  if (cuts >= 0x1p12)
    return Interval::anything();
  most /= 1.0 - cuts * 0x1p-13;
  // Nothing is truncated if all bits are above the last kept one.
  if (isPoint && most <= std::ldexp(1.0, lowest + 13))
    return sum;
  double last = most * 0x1p-13;
  double up = cuts * last, down = up;
  for (Interval product : products) {
    down += std::min(std::max(product.hi, 0.0), last);
    up += std::min(std::max(-product.lo, 0.0), last);
  }
  return Interval(sum.lo - down, sum.hi + up);
}
