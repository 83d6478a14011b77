//===- PackingTest.cpp - Tests of packing weights -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Packing.h"
#include "GetFailure.h"
#include "gtest/gtest.h"

#include <algorithm>

using namespace fuse::runtime;
using fuse::test::getFailure;

/// A function of byte matrices [rows, columns].
static Function makeFunction(int64_t rows, int64_t columns) {
  Function function;
  for (int i = 0; i < 2; ++i)
    function.arguments.push_back(
        {"i8", *getDataType("i8"), {rows, columns}, ""});
  return function;
}

/// Expected offset of byte `column` in row `row` of matrix `which`, according
/// to the description of the recipes.
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
  // All other bytes are padding.
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

/// Projections of one input form one packed weight.
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

/// For a CPU: panels of outputs, equally many of each matrix, with the outputs
/// of a step next to each other.
TEST(PackingTest, PutsPanelsNextToEachOther) {
  // The type of both matrices, and the number of inputs in a step.
  for (auto [element, perStep] :
       {std::pair("f32", size_t(1)), std::pair("bf16", size_t(2)),
        std::pair("i8", size_t(4))}) {
    constexpr size_t rows = 5, inputs = 8, columns = 4;
    size_t elementBytes = 4 / perStep, steps = inputs / perStep;
    Function function;
    std::vector<std::vector<char>> matrices;
    for (char which : {1, 65}) {
      function.arguments.push_back(
          {element, *getDataType(element), {rows, inputs}, ""});
      matrices.emplace_back(rows * inputs * elementBytes);
      for (size_t i = 0; i < matrices.back().size(); ++i)
        matrices.back()[i] = static_cast<char>(which + i % 60);
    }
    PackedWeight packed{"panels", {0, 1}, 3, steps};
    packed.bytes = 3 * steps * columns * 4;
    packed.columns = columns;
    checkPacking(packed, function);
    std::vector<char> output(packed.bytes, 'x');
    packWeights(packed, function, {matrices[0].data(), matrices[1].data()},
                output.data());
    for (size_t tile = 0; tile < packed.tiles; ++tile)
      for (size_t step = 0; step < steps; ++step)
        for (size_t column = 0; column < columns; ++column)
          for (size_t byte = 0; byte < 4; ++byte) {
            size_t row = tile * 2 + column % 2;
            // Only half of the last tile is used.
            char expected =
                row < rows
                    ? matrices[column / 2][(row * steps + step) * 4 + byte]
                    : 0;
            ASSERT_EQ(
                output[((tile * steps + step) * columns + column) * 4 + byte],
                expected);
          }
  }
}

/// Matrices that are stored as [in, out] give the same panels.
TEST(PackingTest, TransposesPanels) {
  constexpr size_t rows = 5, inputs = 6, columns = 4;
  for (auto [element, perStep] :
       {std::pair("f32", size_t(1)), std::pair("bf16", size_t(2))}) {
    size_t elementBytes = 4 / perStep;
    std::vector<char> matrix(rows * inputs * elementBytes), other(matrix);
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = static_cast<char>(i % 100);
    for (size_t row = 0; row < rows; ++row)
      for (size_t input = 0; input < inputs; ++input)
        for (size_t byte = 0; byte < elementBytes; ++byte)
          other[(input * rows + row) * elementBytes + byte] =
              matrix[(row * inputs + input) * elementBytes + byte];
    std::vector<char> outputs[2];
    for (bool transposed : {false, true}) {
      Function function;
      std::vector<int64_t> shape = {rows, inputs};
      if (transposed)
        std::swap(shape[0], shape[1]);
      function.arguments = {{element, *getDataType(element), shape, ""}};
      PackedWeight packed{transposed ? "panels_transposed" : "panels",
                          {0},
                          2,
                          inputs / perStep};
      packed.columns = columns;
      packed.bytes = 2 * packed.steps * columns * 4;
      checkPacking(packed, function);
      outputs[transposed].assign(packed.bytes, 'x');
      packWeights(packed, function, {(transposed ? other : matrix).data()},
                  outputs[transposed].data());
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  }
}

TEST(PackingTest, RefusesOtherPanels) {
  Function function;
  function.arguments = {{"f32", *getDataType("f32"), {8, 6}, ""},
                        {"f32", *getDataType("f32"), {8, 6}, ""},
                        {"f64", *getDataType("f64"), {8, 6}, ""},
                        {"f32", *getDataType("f32"), {-1, 6}, ""}};
  auto getProblem = [&](std::vector<size_t> operands, uint64_t tiles,
                        uint64_t steps, uint64_t bytes, uint64_t columns) {
    PackedWeight packed{"panels", std::move(operands), tiles, steps, bytes};
    packed.columns = columns;
    try {
      checkPacking(packed, function);
    } catch (const Failure &failure) {
      return failure.getMessage();
    }
    return std::string();
  };
  EXPECT_EQ(getProblem({0, 1}, 4, 6, 384, 4), "");
  EXPECT_EQ(getProblem({}, 4, 6, 384, 4),
            "recipe 'panels' packs 0 matrices in 4 columns");
  EXPECT_EQ(getProblem({0, 1}, 4, 6, 384, 3),
            "recipe 'panels' packs 2 matrices in 3 columns");
  EXPECT_EQ(getProblem({0, 1}, 3, 6, 384, 4),
            "recipe 'panels' makes other tiles and steps of 8x6xf32 than the "
            "plan has");
  EXPECT_EQ(getProblem({0, 1}, 4, 6, 380, 4),
            "recipe 'panels' makes 384 bytes, the plan has 380");
  for (size_t wrong : {2, 3})
    EXPECT_NE(getProblem({wrong}, 2, 6, 192, 4), "");
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
  auto check = [&](const PackedWeight &packed) {
    return getFailure([&] { checkPacking(packed, function); });
  };
  EXPECT_EQ(check({"rows_256", {0}, 1, 1, 32768}), "");
  std::string what = "recipe ";
  EXPECT_EQ(check({"magic", {0}, 1, 1, 32768}),
            what + "'magic' is unknown; there are gate_up_256, rows_256, "
                   "panels, panels_transposed, identity");
  EXPECT_EQ(check({"rows_256", {}, 0, 1, 0}),
            what + "'rows_256' packs at least 1 matrices, got 0");
  EXPECT_EQ(check({"gate_up_256", {0}, 1, 1, 32768}),
            what + "'gate_up_256' packs 2 matrices, got 1");
  for (const PackedWeight &packed :
       {PackedWeight{"rows_256", {0, 1}, 1, 1, 32768},
        PackedWeight{"rows_256", {0}, 2, 1, 65536},
        PackedWeight{"rows_256", {0}, 1, 2, 65536},
        PackedWeight{"rows_256", {0}, 1, 1, 32767}})
    EXPECT_THROW(checkPacking(packed, function), Failure) << packed.recipe;
  // Concatenated matrices must have the same width.
  function.arguments[1].shape[1] = 64;
  EXPECT_THROW(checkPacking({"rows_256", {0, 1}, 2, 1, 65536}, function),
               Failure);
  function.arguments[0].shape[0] = -1;
  EXPECT_EQ(check({"rows_256", {0}, 1, 1, 32768}),
            what + "'rows_256' packs matrices of one type with known sizes, "
                   "got ?x128xi8");
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// A function of one matrix [6, 4] with the bytes 0 to 23, and one [2, 3].
static Function makeSources() {
  Function function;
  function.arguments = {{"i8", *getDataType("i8"), {6, 4}, ""},
                        {"i8", *getDataType("i8"), {2, 3}, ""}};
  return function;
}

static std::vector<char> packViews(std::vector<std::vector<ViewBox>> views,
                                   uint64_t bytes) {
  std::vector<char> first(24), second = {100, 101, 102, 103, 104, 105};
  for (size_t i = 0; i < first.size(); ++i)
    first[i] = static_cast<char>(i);
  PackedWeight packed{"identity", {0, 1}, 1, 1, bytes, 0, std::move(views)};
  Function function = makeSources();
  checkPacking(packed, function);
  std::vector<char> output(bytes, 'x');
  packWeights(packed, function, {first.data(), second.data()}, output.data());
  return output;
}

TEST(PackingTest, PacksRows) {
  EXPECT_EQ(packViews({{{0, 8, {0, 0}, {2, 4}, {4, 1}}}}, 8),
            (std::vector<char>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(PackingTest, PacksEveryOtherRowOfColumns) {
  EXPECT_EQ(packViews({{{0, 5, {0, 0}, {3, 2}, {8, 1}}}}, 6),
            (std::vector<char>{5, 6, 13, 14, 21, 22}));
}

TEST(PackingTest, PacksTransposes) {
  EXPECT_EQ(packViews({{{1, 0, {0, 0}, {3, 2}, {1, 3}}}}, 6),
            (std::vector<char>{100, 103, 101, 104, 102, 105}));
}

TEST(PackingTest, PacksVectors) {
  EXPECT_EQ(packViews({{{0, 1, {0}, {6}, {4}}}}, 6),
            (std::vector<char>{1, 5, 9, 13, 17, 21}));
}

/// Columns of the first matrix beside the second one.
TEST(PackingTest, PacksConcatenations) {
  EXPECT_EQ(packViews({{{1, 0, {0, 1}, {2, 3}, {3, 1}},
                        {0, 0, {0, 0}, {2, 1}, {4, 1}}}},
                      8),
            (std::vector<char>{0, 100, 101, 102, 4, 103, 104, 105}));
}

static std::string getViewFailure(std::vector<ViewBox> view, uint64_t bytes) {
  PackedWeight packed{"identity", {0, 1}, 1, 1, bytes, 0, {std::move(view)}};
  return getFailure([&] { checkPacking(packed, makeSources()); });
}

TEST(PackingTest, RefusesViewsThatDoNotFit) {
  EXPECT_EQ(getViewFailure({{0, 21, {0, 0}, {1, 4}, {4, 1}}}, 4),
            "recipe 'identity' has a view of elements that 6x4xi8 does not "
            "have");
  EXPECT_EQ(getViewFailure({{0, 0, {1, 0}, {1, 4}, {4, 1}}}, 8),
            "recipe 'identity' has a view with boxes that do not fill 2x4xi8");
  EXPECT_EQ(
      getViewFailure(
          {{0, 0, {0, 0}, {2, 4}, {4, 1}}, {1, 0, {1, 0}, {2, 3}, {3, 1}}}, 12),
      "recipe 'identity' has a view with boxes that overlap");
  EXPECT_EQ(getViewFailure({{0, 0, {0, 0, 0}, {1, 2, 4}, {8, 4, 1}}}, 8),
            "recipe 'identity' packs matrices and vectors, got 1x2x4xi8");
  EXPECT_EQ(getViewFailure({{0, 0, {0}, {uint64_t(1) << 47}, {0}},
                            {0, 0, {uint64_t(1) << 47}, {1}, {0}}},
                           4),
            "recipe 'identity' makes 140737488355329 bytes, the plan has 4");
  EXPECT_EQ(getViewFailure({{0, 0, {0, 0}, {1 << 25, 1 << 25}, {0, 0}}}, 4),
            "recipe 'identity' has a view of more than 2^48 elements");
}
