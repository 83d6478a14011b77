//===- ValuesTest.cpp - Tests of random tensors and comparisons -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Values.h"
#include "../Runtime/GetFailure.h"
#include "gtest/gtest.h"

#include <cmath>
#include <vector>

using namespace fuse;
using namespace fuse::measure;
using fuse::test::getFailure;

template <typename T>
static std::string toBytes(std::vector<T> values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
static double read(const char *element, T bits) {
  return readValue(element, toBytes<T>({bits}).data());
}

TEST(ValuesTest, ReadsEveryType) {
  EXPECT_EQ(read<uint16_t>("bf16", 0x3fc0), 1.5);
  EXPECT_EQ(read<uint16_t>("bf16", 0xff80), -INFINITY);
  EXPECT_TRUE(std::isnan(read<uint16_t>("bf16", 0x7fc0)));
  EXPECT_EQ(read<uint16_t>("f16", 0x0001), std::ldexp(1, -24));
  EXPECT_EQ(read<uint16_t>("f16", 0x7bff), 65504);
  EXPECT_EQ(read<uint8_t>("f8E5M2", 0x7b), 57344);
  EXPECT_EQ(read<uint8_t>("f8E5M2", 0x7c), INFINITY);
  // The largest exponent of this type has finite values, and there is no
  // infinity.
  EXPECT_EQ(read<uint8_t>("f8E4M3FN", 0x7e), 448);
  EXPECT_EQ(read<uint8_t>("f8E4M3FN", 0x81), -std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(read<uint8_t>("f8E4M3FN", 0xff)));
  EXPECT_EQ(read<float>("f32", 0.1f), double(0.1f));
  EXPECT_EQ(read<int8_t>("i8", -7), -7);
  EXPECT_EQ(read<int64_t>("i64", -70000000000), -70000000000.0);
  EXPECT_THROW(getElementBytes("i4"), runtime::Failure);
}

TEST(ValuesTest, FillsTheSameEverywhere) {
  // The machines of the compiler and of the GPU have to draw the same values.
  // Changing them requires a new version of the format.
  std::string data(8, '\0');
  fillFromPool(data.data(), 8, 1, "abcdefgh", 1);
  EXPECT_EQ(data, "bhgdbaff");
  std::string other(8, '\0');
  fillFromPool(other.data(), 8, 1, "abcdefgh", 2);
  EXPECT_NE(data, other);
  std::string pairs(8, '\0');
  fillFromPool(pairs.data(), 4, 2, "aabb", 1);
  EXPECT_EQ(pairs, "bbbbaabb");
  fillFromPool(nullptr, 0, 2, "", 1);
  auto fill = [&](std::string_view pool) {
    return getFailure([&] { fillFromPool(data.data(), 4, 2, pool, 1); });
  };
  EXPECT_EQ(fill("abcd"), "");
  EXPECT_EQ(fill("abc"), "a pool of 3 bytes has no whole elements of 2");
  EXPECT_EQ(fill(""), "a pool of 0 bytes has no whole elements of 2");
}

TEST(ValuesTest, ComparesFiniteValues) {
  Comparison same = compare("f32", toBytes<float>({1, -2, NAN}),
                            toBytes<float>({1, -2, NAN}));
  EXPECT_EQ(same.values, 3u);
  EXPECT_EQ(same.different, 0u);
  EXPECT_EQ(same.energy, 0);
  Comparison apart =
      compare("f32", toBytes<float>({3, 4, 5}), toBytes<float>({3, 4, 0}));
  EXPECT_EQ(apart.different, 1u);
  EXPECT_EQ(apart.specials, 0u);
  EXPECT_EQ(apart.maxAbsolute, 5);
  EXPECT_EQ(apart.place, 2u);
  EXPECT_DOUBLE_EQ(apart.energy, 25.0 / 75.0);
  EXPECT_DOUBLE_EQ(apart.maxElement, 5 / (std::sqrt(25.0 / 3) + 5));
  EXPECT_EQ(compare("f32", "", "").values, 0u);
  EXPECT_THROW(compare("f32", "abcd", ""), runtime::Failure);
}

TEST(ValuesTest, CountsUnitsInTheLastPlace) {
  auto getBin = [](const char *element, auto actual, auto expected) {
    Comparison found = compare(element, toBytes<decltype(actual)>({actual}),
                               toBytes<decltype(actual)>({expected}));
    for (size_t bin = 0; bin < found.ulps.size(); ++bin)
      if (found.ulps[bin])
        return int(bin);
    return -1;
  };
  using Bits = uint16_t;
  EXPECT_EQ(getBin("bf16", Bits(0x3f80), Bits(0x3f80)), 0);
  EXPECT_EQ(getBin("bf16", Bits(0x3f80), Bits(0x3f81)), 1);
  EXPECT_EQ(getBin("bf16", Bits(0x3f83), Bits(0x3f80)), 2);
  EXPECT_EQ(getBin("bf16", Bits(0x3f84), Bits(0x3f80)), 3);
  // Both zeros have the same rank; and the smallest numbers of both signs.
  EXPECT_EQ(getBin("bf16", Bits(0x8000), Bits(0x0000)), 0);
  EXPECT_EQ(getBin("bf16", Bits(0x8001), Bits(0x0001)), 2);
  EXPECT_EQ(getBin("f32", 1.0f, -1.0f), 16);
  EXPECT_EQ(getBin("i8", int8_t(-1), int8_t(0)), 1);
  EXPECT_EQ(getBin("i8", int8_t(-128), int8_t(127)), 8);
  EXPECT_EQ(getBin("i64", INT64_MIN, INT64_MAX), 16);
  // A NaN has no distance.
  EXPECT_EQ(getBin("f32", NAN, 1.0f), -1);
}

TEST(ValuesTest, ComparesWhereThereIsNoNumber) {
  auto countSpecials = [](float actual, float expected) {
    return compare("f32", toBytes<float>({actual}), toBytes<float>({expected}))
        .specials;
  };
  EXPECT_EQ(countSpecials(NAN, NAN), 0u);
  EXPECT_EQ(countSpecials(-NAN, NAN), 0u);
  EXPECT_EQ(countSpecials(INFINITY, INFINITY), 0u);
  EXPECT_EQ(countSpecials(INFINITY, -INFINITY), 1u);
  EXPECT_EQ(countSpecials(NAN, INFINITY), 1u);
  EXPECT_EQ(countSpecials(1, NAN), 1u);
  EXPECT_EQ(countSpecials(INFINITY, 3e38f), 1u);
}

TEST(ValuesTest, FindsWhatAContractForbids) {
  auto isOutside = [](float value, double low, double high) {
    return !findOutside("f32", toBytes<float>({value}),
                        toBytes<double>({low, high}))
                .empty();
  };
  EXPECT_FALSE(isOutside(1, 1, 1));
  EXPECT_FALSE(isOutside(-0.0f, 0, 0));
  EXPECT_TRUE(isOutside(1, 1.5, 2));
  EXPECT_TRUE(isOutside(NAN, 0, 1));
  EXPECT_TRUE(isOutside(1, NAN, NAN));
  EXPECT_FALSE(isOutside(NAN, NAN, NAN));
  EXPECT_FALSE(isOutside(NAN, INFINITY, -INFINITY));
  EXPECT_FALSE(isOutside(INFINITY, 1, INFINITY));
  EXPECT_EQ(
      findOutside("i8", toBytes<int8_t>({3, 4}), toBytes<double>({3, 3, 5, 6})),
      std::vector<size_t>({1}));
  EXPECT_EQ(getFailure([] { findOutside("f32", "abcd", ""); }),
            "a contract of 0 bytes is not of 1 values");
}
