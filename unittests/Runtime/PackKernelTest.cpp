//===- PackKernelTest.cpp - Tests of packing weights on a GPU -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel runs on the emulated GPU and has to write the bytes that the CPU
// writes.
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CUDA/PackKernel.h"
#include "fuse/Runtime/Core/Packing.h"
#include "gtest/gtest.h"

using namespace fuse::runtime;
using namespace fuse::runtime::cuda;

static const std::shared_ptr<const CudaDevice> &getDevice() {
  static const std::shared_ptr<const CudaDevice> device = [] {
    ::setenv("FUSE_CUDA_LIBRARY", EMULATED_CUDA, /*overwrite=*/1);
    return std::make_shared<CudaDevice>(0);
  }();
  return device;
}

static std::vector<char> download(const DeviceMemory &memory) {
  std::vector<char> bytes(memory.size());
  CurrentContext current(*getDevice());
  getDevice()->call(getDevice()->getDriver().cuMemcpyDtoH(
                        bytes.data(), memory.get(), bytes.size()),
                    "cuMemcpyDtoH");
  return bytes;
}

namespace {

/// Byte matrices, which have the same layout as all other types.
struct Case {
  PackedWeight packed;
  Function function;
  std::vector<std::vector<char>> matrices;

  Case(const std::string &recipe, std::vector<int64_t> rows, int64_t columns) {
    packed.recipe = recipe;
    uint64_t tileRows = recipe == "gate_up_256" ? 128 : 256;
    for (size_t i = 0; i < rows.size(); ++i) {
      function.arguments.push_back(
          {"i8", *getDataType("i8"), {rows[i], columns}, ""});
      packed.operands.push_back(i);
      packed.tiles += (rows[i] + tileRows - 1) / tileRows;
      std::vector<char> matrix(rows[i] * columns);
      for (size_t at = 0; at < matrix.size(); ++at)
        matrix[at] = static_cast<char>(1 + (at * 7 + at / 251 + i * 90) % 127);
      matrices.push_back(std::move(matrix));
    }
    if (recipe == "gate_up_256")
      packed.tiles /= 2;
    packed.steps = (columns + 127) / 128;
    packed.bytes = packed.tiles * packed.steps * 256 * 128;
    checkPacking(packed, function);
  }

  std::vector<char> packOnCpu() const {
    std::vector<const char *> operands;
    for (const std::vector<char> &matrix : matrices)
      operands.push_back(matrix.data());
    std::vector<char> output(packed.bytes, 'x');
    packWeights(packed, function, operands, output.data());
    return output;
  }

  /// The bytes, or none if the CPU has to pack. Matrices begin `offset` bytes
  /// after an aligned address.
  std::vector<char> packOnGpu(size_t offset = 0) const {
    std::vector<DeviceMemory> memory;
    std::vector<DevicePtr> operands;
    for (const std::vector<char> &matrix : matrices) {
      memory.emplace_back(getDevice(), matrix.size() + offset, "a matrix");
      std::vector<char> shifted(offset, 0);
      shifted.insert(shifted.end(), matrix.begin(), matrix.end());
      memory.back().upload(shifted.data(), shifted.size());
      operands.push_back(memory.back().get() + offset);
    }
    DeviceMemory output(getDevice(), packed.bytes, "packed weights");
    if (!getDevice()->getPackKernel().pack(packed, function, operands,
                                           output.get()))
      return {};
    getDevice()->waitForDefaultStream();
    return download(output);
  }
};

} // namespace

// Full tiles, and rows and steps past the edges, which are zeros.
TEST(PackKernelTest, PacksPairs) {
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{128, 128}, {1, 16}, {200, 272}}) {
    Case pair("gate_up_256", {rows, rows}, columns);
    EXPECT_EQ(pair.packOnGpu(), pair.packOnCpu()) << rows << " " << columns;
  }
}

TEST(PackKernelTest, PacksRowsOfSeveralMatrices) {
  Case one("rows_256", {256}, 128);
  EXPECT_EQ(one.packOnGpu(), one.packOnCpu());
  Case several("rows_256", {300, 16, 257}, 144);
  EXPECT_EQ(several.packOnGpu(), several.packOnCpu());
}

TEST(PackKernelTest, LeavesTheRestToTheCpu) {
  EXPECT_TRUE(Case("rows_256", {16}, 24).packOnGpu().empty());
  EXPECT_TRUE(Case("rows_256", {16}, 32).packOnGpu(/*offset=*/8).empty());
  Case other("rows_256", {16}, 32);
  other.packed.recipe = "identity";
  EXPECT_TRUE(other.packOnGpu().empty());
}

/// Packs a box of a matrix of `element` on the CPU and on the GPU.
static void checkGather(const char *element, const ViewBox &box,
                        std::vector<int64_t> shape) {
  size_t bytes = getDataType(element)->bits / 8;
  Function function;
  function.arguments = {{element, *getDataType(element), {40, 24}, ""}};
  TensorSpec matrix{element, *getDataType(element), shape, ""};
  std::vector<char> source(40 * 24 * bytes);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<char>(i * 7 + i / 251);
  size_t size = bytes;
  for (int64_t dim : shape)
    size *= dim;
  PackedWeight packed{"identity", {0}, 1, 1, size, 0, {{box}}};
  checkPacking(packed, function);
  std::vector<char> expected(size);
  packWeights(packed, function, {source.data()}, expected.data());

  DeviceMemory from(getDevice(), source.size(), "a matrix");
  from.upload(source.data(), source.size());
  DeviceMemory to(getDevice(), size, "a view");
  ASSERT_TRUE(
      getDevice()->getPackKernel().gather(box, matrix, from.get(), to.get()));
  getDevice()->waitForDefaultStream();
  EXPECT_EQ(download(to), expected) << element;
}

// Transposes, every other column, and vectors, of all sizes of elements.
TEST(PackKernelTest, GathersBoxes) {
  for (const char *element : {"i8", "bf16", "f32"}) {
    checkGather(element, {0, 0, {0, 0}, {24, 40}, {1, 24}}, {24, 40});
    checkGather(element, {0, 25, {0, 0}, {39, 11}, {24, 2}}, {39, 11});
    checkGather(element, {0, 3, {0}, {40}, {24}}, {40});
  }
}

TEST(PackKernelTest, LeavesWideElementsToTheCpu) {
  TensorSpec matrix{"f64", *getDataType("f64"), {2}, ""};
  EXPECT_FALSE(
      getDevice()->getPackKernel().gather({0, 0, {0}, {2}, {1}}, matrix, 0, 0));
}
