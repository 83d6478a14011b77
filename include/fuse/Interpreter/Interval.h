//===- Interval.h - Intervals of values that contracts allow ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/reference/numerics.md leaves open only the order of sums and the last
// bits of f32. A contract thus defines an interval for every value, which is a
// single number if nothing is open. Every lowering must compute a value in this
// interval. Rounding uses APFloat.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INTERPRETER_INTERVAL_H
#define FUSE_INTERPRETER_INTERVAL_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fuse {

/// The unit roundoff of f32.
constexpr double kUnit = 0x1p-24;

/// All numbers from `lo` to `hi`, NaN if both are NaN, or any value at all.
struct Interval {
  double lo = 0.0, hi = 0.0;
  bool isAnything = false;

  Interval() = default;
  Interval(double value) : lo(value), hi(value) {}
  Interval(double lo, double hi) : lo(lo), hi(hi) {}

  static Interval anything() {
    Interval range;
    range.isAnything = true;
    return range;
  }
  bool isNaN() const { return !isAnything && std::isnan(lo); }
  /// Whether this is a single number or NaN.
  bool isPoint() const { return !isAnything && (lo == hi || std::isnan(lo)); }
  bool isFinite() const {
    return !isAnything && std::isfinite(lo) && std::isfinite(hi);
  }
  double getMagnitude() const { return std::max(std::fabs(lo), std::fabs(hi)); }

  /// Whether a value is allowed. The signs of zeros are ignored.
  bool contains(double value) const {
    if (isAnything || isNaN())
      return isAnything || std::isnan(value);
    return lo <= value && value <= hi;
  }
  /// Smallest interval that contains both.
  Interval hull(Interval other) const {
    if (isAnything || other.isAnything || isNaN() != other.isNaN())
      return anything();
    return Interval(std::min(lo, other.lo), std::max(hi, other.hi));
  }
  /// Extends the interval by `absolute` on both sides.
  Interval widen(double absolute) const {
    if (!isFinite())
      return *this;
    return Interval(lo - absolute, hi + absolute);
  }
};

/// The largest finite value of a storage type.
double getLargest(mlir::Type type);

/// Rounds to nearest, ties to even, to a float type.
double roundTo(double value, mlir::Type type);
Interval roundTo(Interval value, mlir::Type type);

/// Rounds to the nearest stored value. Values beyond the largest one saturate.
/// NaN stays NaN in floats and becomes 0 in integers.
Interval saturateTo(Interval value, mlir::Type type);

// Operations of f32, each rounded once.
double f32(double value);
Interval f32(Interval value);
Interval add(Interval lhs, Interval rhs);
Interval mul(Interval lhs, Interval rhs);
/// The divisor must not contain 0.
Interval div(Interval lhs, Interval rhs);
/// A product and a sum, with and without a rounding between them.
Interval mulAdd(Interval lhs, Interval rhs, Interval addend);
Interval max(Interval lhs, Interval rhs);
Interval min(Interval lhs, Interval rhs);

/// Applies a function that is monotone below `turn` and increasing above it.
/// The result may be off by `relative` of its value plus `absolute`.
Interval mapUnimodal(Interval value,
                     llvm::function_ref<double(double)> function, double turn,
                     double relative, double absolute);

/// Accumulator for sums of products of 8-bit floats.
enum class Accumulator {
  /// f32, each addition rounded.
  Single,
  /// Accumulator of the tensor cores of sm_90, see docs/reference/numerics.md.
  /// 32 products and the previous sum are aligned at the largest exponent and
  /// truncated 13 bits below it. So is their sum.
  Aligned
};

/// A sum in any order of f32, with each addition rounded.
class Sum {
public:
  explicit Sum(Accumulator accumulator = Accumulator::Single)
      : isAligned(accumulator == Accumulator::Aligned) {}

  /// Adds the product of two values. The product is not rounded.
  void add(Interval lhs, Interval rhs);
  void add(Interval value) { add(value, 1.0); }
  /// The sum in f32; a single number if no order rounds.
  Interval get() const;
  /// The sum of partial sums that are each rounded to bf16, for any split.
  Interval getOfParts() const;
  /// The sum of integers that never overflow, in f32.
  Interval getInteger() const {
    return isAnything ? Interval::anything() : f32(Interval(lo, hi));
  }

private:
  Interval align(Interval sum) const;

  /// For aligned accumulators, the lower and upper bound of every product.
  bool isAligned;
  std::vector<Interval> products;
  /// Largest product of the powers of two given by the exponents.
  double largest = 0.0;
  double lo = 0.0, hi = 0.0, magnitude = 0.0;
  /// All products are multiples of this power of two.
  int lowest = 4096;
  uint64_t count = 0;
  bool isPoint = true, isAnything = false, isNaN = false;
  bool hasPlus = false, hasMinus = false;
};

} // namespace fuse

#endif // FUSE_INTERPRETER_INTERVAL_H
