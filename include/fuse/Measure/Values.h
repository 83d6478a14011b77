//===- Values.h - Random tensors and their comparison -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_VALUES_H
#define FUSE_MEASURE_VALUES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fuse::measure {

/// Bytes of an element, whose type has its MLIR name. Throws `Failure` for
/// types that tensors cannot have.
size_t getElementBytes(std::string_view element);

/// An element as a number; integers are exact up to 2^53.
double readValue(std::string_view element, const char *data);

/// Fills `count` elements with values drawn from a pool. A seed gives the same
/// tensor on every machine, so only pools have to be transferred. Throws
/// `Failure` unless the pool has whole elements.
void fillFromPool(char *data, size_t count, size_t elementBytes,
                  std::string_view pool, uint64_t seed);

/// Distance between two tensors of one type.
struct Comparison {
  size_t values = 0;
  /// Number of values with different bits. -0 and 0 differ, two NaNs do not.
  size_t different = 0;
  /// Number of places where only one value is NaN, or where infinities differ.
  size_t specials = 0;
  /// |x - y|^2 / (|x|^2 + |y|^2) of the finite values.
  double energy = 0;
  /// Largest |x - y|, and the largest |x - y| / (rms(y) + max(|x|, |y|)).
  double maxAbsolute = 0, maxElement = 0;
  /// Index of the largest element error.
  size_t place = 0;
  /// Histogram of the distance between finite values, in units in the last
  /// place: 0, 1, 2 to 3, 4 to 7 and so on. Each bin is twice as wide as the
  /// one before; the last one has no upper end.
  std::array<size_t, 17> ulps = {};
};

Comparison compare(std::string_view element, const std::string &actual,
                   const std::string &expected);

/// Indices of values that their contract does not allow. A contract is two f64
/// per value, a lower and an upper bound. NaN bounds require NaN. If the lower
/// bound is above the upper bound, any value is allowed.
std::vector<size_t> findOutside(std::string_view element,
                                const std::string &actual,
                                std::string_view contract);

} // namespace fuse::measure

#endif // FUSE_MEASURE_VALUES_H
