//===- IntervalTest.cpp - Tests of intervals of sums ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Interpreter/Interval.h"
#include "gtest/gtest.h"

using namespace fuse;

/// The sum of products with the alignment of sm_90 tensor cores.
static Interval align(std::initializer_list<std::pair<double, double>> list) {
  Sum sum(Accumulator::Aligned);
  for (auto [lhs, rhs] : list)
    sum.add(lhs, rhs);
  return sum.get();
}

TEST(AlignedSumTest, KeepsWhatFitsInto13Bits) {
  Interval sum = align({{3, 5}, {-2, 7}, {128, 31}});
  EXPECT_TRUE(sum.isPoint());
  EXPECT_EQ(sum.lo, 3969);
  // In f32, this interval contains no such error.
  Sum single;
  single.add(448, 448);
  single.add(0x1p-9, 0x1p-9);
  EXPECT_FALSE(single.get().contains(448.0 * 448.0 - 64));
}

TEST(AlignedSumTest, LosesLowBitsTowardsZero) {
  // 448 * 448 has exponent 17, so bits below 2^4 may be lost.
  Interval sum = align({{448, 448}, {1, 1}});
  EXPECT_TRUE(sum.contains(448.0 * 448.0));
  EXPECT_TRUE(sum.contains(448.0 * 448.0 + 1));
  // The sum may lose the small product, and three truncations of the large one.
  EXPECT_LT(sum.lo, 448.0 * 448.0);
  EXPECT_GT(sum.lo, 448.0 * 448.0 - 256);
  // A negative product is truncated upwards.
  Interval other = align({{448, 448}, {-1, 1}});
  EXPECT_TRUE(other.contains(448.0 * 448.0));
  EXPECT_FALSE(align({{448, 448}}).contains(448.0 * 448.0 + 256));
}

TEST(AlignedSumTest, AlignsDenormalsLikeTheLeastNormalNumber) {
  // 2^-9 is aligned as if its exponent were -6, which cuts bits of the other
  // product.
  Interval sum = align({{0x1p-9, 448}, {0x1.2p-6, 0x1.2p-6}});
  EXPECT_FALSE(sum.isPoint());
  EXPECT_TRUE(sum.contains(0x1p-9 * 448));
}

TEST(AlignedSumTest, KeepsNaNAndAnything) {
  EXPECT_TRUE(align({{std::nan(""), 1}, {1, 1}}).isNaN());
  Sum sum(Accumulator::Aligned);
  sum.add(Interval::anything(), 1.0);
  EXPECT_TRUE(sum.get().isAnything);
}

TEST(AlignedSumTest, GrowsWithTheNumberOfProducts) {
  auto getWidth = [](int count) {
    Sum sum(Accumulator::Aligned);
    for (int i = 0; i < count; ++i)
      sum.add(1.0, i % 2 ? 1.125 : 0x1p-6);
    Interval range = sum.get();
    return range.hi - range.lo;
  };
  EXPECT_GT(getWidth(512), getWidth(64));
  // The bound stays far below the sum of all products.
  EXPECT_LT(getWidth(512), 0.1 * 512);
}

/// The sum of partial sums that are rounded to bf16.
static Interval addParts(std::initializer_list<double> list) {
  Sum sum;
  for (double value : list)
    sum.add(value);
  return sum.getOfParts();
}

TEST(PartsTest, LoseNothingOf8Bits) {
  EXPECT_TRUE(addParts({100, 27, -3}).isPoint());
  EXPECT_EQ(addParts({100, 27, -3}).lo, 124);
  EXPECT_TRUE(addParts({std::nan(""), 1}).isNaN());
}

TEST(PartsTest, AreRoundedEach) {
  // 257 is rounded to 256 in bf16, and 255 is exact.
  EXPECT_TRUE(addParts({257, 255}).contains(511));
  EXPECT_TRUE(addParts({257, 257, 257, 257}).contains(1024));
  EXPECT_FALSE(addParts({257, 255}).contains(509));
  // Partial sums may be larger than their sum.
  EXPECT_TRUE(addParts({257, -255}).contains(1));
  EXPECT_FALSE(addParts({257, -255}).contains(5));
}
