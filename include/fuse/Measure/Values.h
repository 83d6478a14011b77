//===- Values.h - Random tensors and comparisons of them --------*- C++ -*-===//
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

/// Bytes of an element, whose type is named as in MLIR. Throws `Failure` for
/// one that tensors cannot have.
size_t getElementBytes(std::string_view element);

/// An element as a number; integers are exact up to 2^53.
double readValue(std::string_view element, const char *data);

/// Fills `count` elements with values drawn from a pool. The same seed gives
/// the same tensor everywhere, so that only pools travel between machines.
/// Throws `Failure` unless the pool has whole elements.
void fillFromPool(char *data, size_t count, size_t elementBytes,
                  std::string_view pool, uint64_t seed);

/// How far two tensors of one type are apart.
struct Comparison {
  size_t values = 0;
  /// Values of different bits; -0 and 0 differ, two NaNs do not.
  size_t different = 0;
  /// Places where only one of them is NaN, or where infinities differ.
  size_t specials = 0;
  /// |x - y|^2 / (|x|^2 + |y|^2) of the finite values.
  double energy = 0;
  /// Largest |x - y|, and the same as a part of the root mean square of y plus
  /// the larger value.
  double maxAbsolute = 0, maxElement = 0;
  /// Where that is.
  size_t place = 0;
  /// Finite values by their distance in units in the last place: none, 1, 2 or
  /// 3, 4 to 7 and so on, each up to twice as far as the one before; the last
  /// one has no end.
  std::array<size_t, 17> ulps = {};
};

Comparison compare(std::string_view element, const std::string &actual,
                   const std::string &expected);

/// The places of values that are not between the two numbers, of f64, that a
/// contract has for each. Where these are NaN the value has to be; where the
/// first is above the second it may be anything.
std::vector<size_t> findOutside(std::string_view element,
                                const std::string &actual,
                                std::string_view contract);

} // namespace fuse::measure

#endif // FUSE_MEASURE_VALUES_H
