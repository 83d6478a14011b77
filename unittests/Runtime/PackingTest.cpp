//===- PackingTest.cpp - Tests of packing weights -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"
#include "fuse/Runtime/Host/Failure.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>

using namespace fuse::host;

/// A function of matrices [rows, columns] of bytes.
static Function makeFunction(int64_t rows, int64_t columns) {
  Function function;
  for (int i = 0; i < 2; ++i)
    function.arguments.push_back(
        {"i8", *getDataType("i8"), {rows, columns}, ""});
  return function;
}

/// Where byte `column` of row `row` of matrix `which` ends up, computed from
/// the description of the recipes.
static size_t getPlace(const PackedWeight &packed, size_t which, size_t row,
                       size_t column) {
  bool isPair = packed.operands.size() == 2;
  size_t tileRows = isPair ? 128 : 256;
  size_t tile = row / tileRows, inTile = row % tileRows;
  size_t group, m, warp, half, lr;
  if (isPair) {
    group = inTile / 64;
    lr = inTile / 16 % 4 * 2 + inTile / 2 % 2;
    warp = inTile / 4 % 4;
    m = inTile % 2;
    half = which;
  } else {
    group = inTile / 128;
    warp = inTile / 32 % 4;
    lr = inTile / 4 % 8;
    m = inTile / 2 % 2;
    half = inTile % 2;
  }
  size_t p = group * 128 + m * 64 + warp * 16 + half * 8 + lr;
  size_t step = column / 128, chunk = column / 16 % 8;
  return ((step * packed.tiles + tile) * 256 + p) * 128 + (chunk ^ p % 8) * 16 +
         column % 16;
}

static void checkRecipe(PackedWeight packed, int64_t rows, int64_t columns) {
  Function function = makeFunction(rows, columns);
  size_t tileRows = packed.operands.size() == 2 ? 128 : 256;
  packed.tiles = (rows + tileRows - 1) / tileRows;
  packed.steps = (columns + 127) / 128;
  packed.bytes = packed.tiles * packed.steps * 256 * 128;
  checkPacking(packed, function);
  std::vector<std::vector<char>> matrices;
  std::vector<const char *> operands;
  for (size_t which = 0; which < packed.operands.size(); ++which) {
    std::vector<char> matrix(rows * columns);
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = static_cast<char>(1 + (i * 7 + i / 251 + which * 90) % 127);
    matrices.push_back(std::move(matrix));
  }
  for (const std::vector<char> &matrix : matrices)
    operands.push_back(matrix.data());
  std::vector<char> output(packed.bytes, 'x');
  packWeights(packed, function, operands, output.data());
  size_t nonzero = 0;
  for (size_t which = 0; which < matrices.size(); ++which)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column, ++nonzero)
        ASSERT_EQ(output[getPlace(packed, which, row, column)],
                  matrices[which][row * columns + column]);
  // Everything else is padding.
  for (char byte : output)
    nonzero -= byte != 0;
  EXPECT_EQ(nonzero, 0u);
}

TEST(PackingTest, PutsEveryByteInItsPlace) {
  checkRecipe({"rows_256", {0}}, 256, 128);
  checkRecipe({"rows_256", {1}}, 300, 200);
  checkRecipe({"rows_256", {0}}, 1, 1);
  checkRecipe({"gate_up_256", {0, 1}}, 128, 128);
  checkRecipe({"gate_up_256", {0, 1}}, 200, 272);
}

/// Projections of one input are one packed weight.
TEST(PackingTest, PutsMatricesOneBehindTheOther) {
  Function function;
  std::vector<std::vector<char>> matrices;
  for (int64_t rows : {300, 1, 256}) {
    function.arguments.push_back({"i8", *getDataType("i8"), {rows, 144}, ""});
    matrices.emplace_back(rows * 144, static_cast<char>('a' + matrices.size()));
  }
  PackedWeight packed{"rows_256", {2, 0, 1}, 4, 2, 4 * 2 * 32768};
  checkPacking(packed, function);
  std::vector<char> output(packed.bytes, 'x');
  packWeights(packed, function,
              {matrices[2].data(), matrices[0].data(), matrices[1].data()},
              output.data());
  size_t firstTile = 0;
  for (size_t which : packed.operands) {
    const TensorSpec &spec = function.arguments[which];
    for (int64_t row = 0; row < spec.shape[0]; ++row)
      for (int64_t column = 0; column < spec.shape[1]; ++column) {
        PackedWeight single{"rows_256", {which}, packed.tiles};
        size_t place = getPlace(single, 0, firstTile * 256 + row, column);
        ASSERT_EQ(output[place], static_cast<char>('a' + which));
        output[place] = 0;
      }
    firstTile += (spec.shape[0] + 255) / 256;
  }
  EXPECT_EQ(std::count(output.begin(), output.end(), 0), int64_t(packed.bytes));
}

TEST(PackingTest, KeepsTheIdentity) {
  PackedWeight packed{"identity", {0}, 0, 0, 6};
  Function function = makeFunction(2, 3);
  checkPacking(packed, function);
  std::vector<char> output(6);
  packWeights(packed, function, {"abcdef"}, output.data());
  EXPECT_EQ(std::string(output.begin(), output.end()), "abcdef");
}

TEST(PackingTest, RefusesOtherPlans) {
  Function function = makeFunction(256, 128);
  for (PackedWeight packed : {PackedWeight{"magic", {0}, 1, 1, 32768},
                              PackedWeight{"rows_256", {0, 1}, 1, 1, 32768},
                              PackedWeight{"rows_256", {}, 0, 1, 0},
                              PackedWeight{"gate_up_256", {0}, 1, 1, 32768},
                              PackedWeight{"rows_256", {0}, 2, 1, 65536},
                              PackedWeight{"rows_256", {0}, 1, 2, 65536},
                              PackedWeight{"rows_256", {0}, 1, 1, 32767}})
    EXPECT_THROW(checkPacking(packed, function), Failure) << packed.recipe;
  // One behind the other they need one width.
  function.arguments[1].shape[1] = 64;
  EXPECT_THROW(checkPacking({"rows_256", {0, 1}, 2, 1, 65536}, function),
               Failure);
  function.arguments[0].shape[0] = -1;
  EXPECT_THROW(checkPacking({"rows_256", {0}, 1, 1, 32768}, function), Failure);
}
