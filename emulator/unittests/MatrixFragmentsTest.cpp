//===- MatrixFragmentsTest.cpp - Sums of tensor cores ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/MatrixFragments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace fuse::emulator;

namespace {

/// The sum of products of one row and one column, added to `before`.
double addUp(Element element, std::vector<double> a, std::vector<double> b,
             double before = 0) {
  constexpr unsigned rows = 4, columns = 8;
  size_t depth = a.size();
  std::vector<double> values(rows * depth), others(columns * depth);
  std::vector<double> sums(rows * columns, before);
  for (size_t k = 0; k < depth; ++k) {
    values[depth + k] = a[k];
    others[k * columns + 2] = b[k];
  }
  auto alignment = getAlignment(element, element, AccumulatorType::F32);
  multiplyAligned(values.data(), others.data(), rows, columns, unsigned(depth),
                  *alignment, sums.data());
  return sums[columns + 2];
}

TEST(MatrixFragmentsTest, Keeps25DigitsOf16BitProducts) {
  for (Element element : {Element::BF16, Element::F16}) {
    auto add = [&](double value, unsigned count, double before) {
      return addUp(element, std::vector<double>(count, std::fabs(value)),
                   std::vector<double>(count, std::copysign(1, value)), before);
    };
    double bit = std::ldexp(1, -23);
    EXPECT_EQ(1 + bit, add(bit / 4, 4, 1));
    // Truncation is toward zero.
    EXPECT_EQ(1, add(bit / 4, 3, 1));
    EXPECT_EQ(-1, add(-bit / 4, 3, -1));
    EXPECT_EQ(1 - bit, add(-bit / 4, 3, 1));
    // Each product is below the kept digits.
    EXPECT_EQ(1, add(bit / 8, 16, 1));
    // The previous sum is truncated too.
    EXPECT_EQ(5, add(4, 1, 1 + bit));
  }
}

TEST(MatrixFragmentsTest, Keeps13DigitsOf8BitProducts) {
  double bit = std::ldexp(1, -13);
  for (Element element : {Element::E4M3, Element::E5M2}) {
    EXPECT_EQ(256 + 256 * bit, addUp(element, {256, 0.25}, {1, 1024 * bit}));
    EXPECT_EQ(256, addUp(element, {256, 0.25}, {1, 512 * bit}));
    // The result is truncated after its own digits.
    EXPECT_EQ(2, addUp(element, {1}, {1}, 1 + bit));
  }
}

TEST(MatrixFragmentsTest, GivesZerosTheLeastExponent) {
  double least = std::ldexp(1, -6);
  EXPECT_EQ(least * least, addUp(Element::E4M3, {0, least}, {1, least}));
  EXPECT_EQ(0, addUp(Element::E4M3, {0, least}, {448, least}));
  EXPECT_EQ(least * least, addUp(Element::E4M3, {least}, {least}, 0));
}

TEST(MatrixFragmentsTest, KeepsInfinitiesAndNan) {
  double infinity = std::numeric_limits<double>::infinity();
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(infinity, addUp(Element::BF16, {1, infinity}, {1, 1}));
  EXPECT_EQ(-infinity, addUp(Element::BF16, {1}, {1}, -infinity));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {infinity, infinity}, {1, -1})));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {nan}, {1})));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {1}, {1}, nan)));
}

TEST(MatrixFragmentsTest, TruncatesMeasuredTypesOnly) {
  EXPECT_TRUE(getAlignment(Element::E4M3, Element::E5M2, AccumulatorType::F32));
  EXPECT_FALSE(
      getAlignment(Element::TF32, Element::TF32, AccumulatorType::F32));
  EXPECT_FALSE(getAlignment(Element::F16, Element::F16, AccumulatorType::F16));
  EXPECT_FALSE(getAlignment(Element::S8, Element::U8, AccumulatorType::S32));
}

} // namespace
