//===- FormatsTest.cpp - Floating-point formats ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/Formats.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <random>

using namespace fuse::emulator;

namespace {

TEST(FormatsTest, DecodesWhatItEncodes) {
  for (Format format : {kHalf, kBFloat, kE4M3, kE5M2})
    for (uint32_t bits = 0; bits < uint32_t(1) << format.getBits(); ++bits) {
      double value = decodeFloat(bits, format);
      uint32_t expected = std::isnan(value) ? format.getNan() : bits;
      ASSERT_EQ(expected, encodeFloat(value, format)) << value;
    }
  EXPECT_EQ(448, decodeFloat(0x7e, kE4M3));
  EXPECT_TRUE(std::isnan(decodeFloat(0xff, kE4M3)));
  EXPECT_EQ(-57344, decodeFloat(0xfb, kE5M2));
  EXPECT_TRUE(std::isinf(decodeFloat(0x7c, kE5M2)));
}

TEST(FormatsTest, RoundsTies) {
  // The middle between 1 and the next bf16, and the middle after it.
  double middle = 1 + 1.0 / 256, next = 1 + 3.0 / 256;
  EXPECT_EQ(0x3f80u, encodeFloat(middle, kBFloat));
  EXPECT_EQ(0x3f82u, encodeFloat(next, kBFloat));
  EXPECT_EQ(0x3f81u, encodeFloat(middle, kBFloat, Rounding::Away));
  EXPECT_EQ(0x3f80u, encodeFloat(next - 1.0 / 128, kBFloat, Rounding::Zero));
  EXPECT_EQ(0x3f81u, encodeFloat(middle, kBFloat, Rounding::Up));
  EXPECT_EQ(0xbf81u, encodeFloat(-middle, kBFloat, Rounding::Down));
  EXPECT_EQ(0xbf80u, encodeFloat(-middle, kBFloat, Rounding::Up));
}

TEST(FormatsTest, ClampsToTheLargestNumber) {
  EXPECT_EQ(0x7c00u, encodeFloat(65520, kHalf));
  EXPECT_EQ(0x7bffu, encodeFloat(65519, kHalf));
  EXPECT_EQ(0x7bffu, encodeFloat(1e300, kHalf, Rounding::Zero));
  EXPECT_EQ(0x7bffu, encodeFloat(1e300, kHalf, Rounding::Nearest, true));
  EXPECT_EQ(0x7eu, encodeFloat(1e300, kE4M3, Rounding::Nearest, true));
  EXPECT_EQ(0x7fu, encodeFloat(1e300, kE4M3));
  EXPECT_EQ(0xfbu, encodeFloat(-INFINITY, kE5M2, Rounding::Nearest, true));
  EXPECT_EQ(0x0001u, encodeFloat(std::ldexp(1, -24), kHalf));
  EXPECT_EQ(0x0000u, encodeFloat(std::ldexp(1, -25), kHalf));
  EXPECT_EQ(0x0001u, encodeFloat(1e-300, kHalf, Rounding::Up));
  EXPECT_EQ(0x8000u, encodeFloat(-1e-300, kHalf, Rounding::Up));
}

/// Compares with the host in each of its rounding modes.
TEST(FormatsTest, RoundsLikeTheHost) {
  const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::mt19937 random(1);
  for (unsigned i = 0; i < 40000; ++i) {
    auto a = bitCast<float>(static_cast<uint32_t>(random()));
    auto b = bitCast<float>(static_cast<uint32_t>(random()));
    // The exponents are close, so that the sum depends on both.
    auto c = bitCast<float>(static_cast<uint32_t>(
        (bitCast<uint32_t>(a) & 0xff800000) + (random() & 0x3ffffff)));
    auto rounding = static_cast<Rounding>(i % 4);
    std::fesetround(modes[i % 4]);
    volatile float x = a, y = b, z = c;
    volatile float sum = x + z, product = x * y, quotient = x / y;
    volatile float fused = std::fma(x, y, z), root = std::sqrt(x);
    std::fesetround(FE_TONEAREST);
    auto check = [&](float native, double odd) {
      if (std::isnan(native))
        ASSERT_TRUE(std::isnan(odd));
      else
        ASSERT_EQ(bitCast<uint32_t>(native),
                  encodeFloat(odd, kSingle, rounding))
            << a << " " << b << " " << c;
    };
    check(sum, addToOdd(a, c));
    check(product, double(a) * b);
    check(quotient, divideToOdd(a, b));
    check(fused, addToOdd(double(a) * b, c));
    check(root, squareRootToOdd(a));
  }
}

} // namespace
