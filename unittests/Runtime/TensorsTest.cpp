//===- TensorsTest.cpp - Tests of tensors of the caller -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Tensors.h"
#include "GetFailure.h"
#include "gtest/gtest.h"

#include <functional>
#include <random>
#include <vector>

using namespace fuse::runtime;
using fuse::test::getFailure;

namespace {

/// A valid tensor for tests to damage.
struct TestTensor {
  alignas(64) char data[1024] = {};
  int64_t shape[2] = {3, 4};
  int64_t strides[2] = {4, 1};
  DLTensor tensor = {data,  {kDLCPU, 0}, 2, {kDLFloat, 32, 1},
                     shape, strides,     0};
};

const TensorSpec kSpec = {"f32", {kDLFloat, 32, 1}, {-1, 4}, ""};

} // namespace

/// The error message for a tensor after a change, or "".
static std::string check(const std::function<void(TestTensor &)> &spoil) {
  TestTensor test;
  spoil(test);
  try {
    TensorView view = checkTensor(&test.tensor, kSpec, "it");
    EXPECT_EQ(view.shape, test.tensor.shape);
    return "";
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.getStatus(), FUSE_ERROR_TENSOR);
    return failure.getMessage();
  }
}

TEST(TensorsTest, TakesRowMajorTensors) {
  EXPECT_EQ(check([](TestTensor &) {}), "");
  EXPECT_EQ(check([](TestTensor &t) { t.tensor.strides = nullptr; }), "");
  EXPECT_EQ(check([](TestTensor &t) { t.tensor.byte_offset = 8; }), "");
  // The stride of a dimension of size 1 is arbitrary, and so are all strides of
  // an empty tensor.
  EXPECT_EQ(check([](TestTensor &t) {
              t.shape[0] = 1;
              t.strides[0] = -7;
            }),
            "");
  EXPECT_EQ(check([](TestTensor &t) {
              t.shape[0] = 0;
              t.strides[0] = t.strides[1] = 99;
              t.tensor.data = nullptr;
            }),
            "");
}

TEST(TensorsTest, RefusesOthers) {
  struct Row {
    std::function<void(TestTensor &)> spoil;
    const char *message;
  };
  const Row rows[] = {
      {[](TestTensor &t) { t.tensor.ndim = 1; },
       "it has 1 dimensions, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.ndim = -1; },
       "it has -1 dimensions, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.ndim = INT32_MAX; },
       "it has 2147483647 dimensions, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.shape = nullptr; }, "it has no shape"},
      {[](TestTensor &t) { t.tensor.data = nullptr; }, "it has no data"},
      {[](TestTensor &t) { t.tensor.dtype = {kDLBfloat, 16, 1}; },
       "it has elements of bf16, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.dtype = {kDLFloat, 64, 1}; },
       "it has elements of f64, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.dtype = {kDLFloat, 32, 4}; },
       "it has elements of code 2 with 32 bits and 4 lanes, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.dtype = {kDLFloat8_e4m3fn, 8, 1}; },
       "it has elements of f8E4M3FN, expected ?x4xf32"},
      {[](TestTensor &t) { t.tensor.dtype = {200, 0, 0}; },
       "it has elements of code 200 with 0 bits and 0 lanes, expected "
       "?x4xf32"},
      {[](TestTensor &t) { t.shape[1] = 5; },
       "it has size 5 in dimension 1, expected ?x4xf32"},
      {[](TestTensor &t) { t.shape[0] = -3; }, "it has size -3 in dimension 0"},
      {[](TestTensor &t) { t.strides[0] = 5; },
       "it has stride 5 in dimension 0, expected row-major order, where it is "
       "4"},
      {[](TestTensor &t) {
         t.strides[0] = 1;
         t.strides[1] = 3;
       },
       "it has stride 3 in dimension 1, expected row-major order, where it is "
       "1"},
      {[](TestTensor &t) {
         t.shape[0] = INT64_MAX / 8;
         t.tensor.strides = nullptr;
       },
       "it is larger than any memory"},
      {[](TestTensor &t) {
         t.shape[0] = INT64_MAX;
         t.tensor.strides = nullptr;
       },
       "it is larger than any memory"},
      {[](TestTensor &t) { t.tensor.byte_offset = 2; },
       "it is not aligned to its elements of 4 bytes"},
      {[](TestTensor &t) { t.tensor.byte_offset = ~uint64_t(0); },
       "it has a byte offset of 18446744073709551615"},
  };
  for (const Row &row : rows)
    EXPECT_EQ(check(row.spoil), row.message);
  EXPECT_THROW(checkTensor(nullptr, kSpec, "it"), Failure);
}

/// Whether the strides put the elements in row-major order, checked element by
/// element.
static bool isRowMajor(const std::vector<int64_t> &shape,
                       const std::vector<int64_t> &strides) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      place += rest % shape[dim] * strides[dim];
    if (place != i)
      return false;
  }
  return true;
}

// Slices, steps, transposes, broadcasts and reversed views.
TEST(TensorsTest, TakesViewsThatAreRowMajorAndNoOthers) {
  std::mt19937 random(1);
  int taken = 0, refused = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    size_t rank = random() % 5;
    std::vector<int64_t> shape(rank), strides(rank);
    int64_t stride = 1;
    for (size_t dim = rank; dim-- > 0; stride *= shape[dim]) {
      shape[dim] = random() % 4;
      strides[dim] = stride;
    }
    if (rank > 0 && random() % 3 == 0)
      strides[random() % rank] = int64_t(random() % 14) - 3;
    if (rank > 1 && random() % 3 == 0)
      std::swap(strides[0], strides[1 + random() % (rank - 1)]);
    TensorSpec spec = {"f32", {kDLFloat, 32, 1}, {}, ""};
    spec.shape.assign(rank, -1);
    alignas(4) char data[4] = {};
    DLTensor tensor = {data,
                       {kDLCPU, 0},
                       int32_t(rank),
                       {kDLFloat, 32, 1},
                       shape.data(),
                       strides.data(),
                       0};
    bool expected = isRowMajor(shape, strides);
    try {
      TensorView view = checkTensor(&tensor, spec, "it");
      EXPECT_TRUE(expected);
      EXPECT_EQ(view.data, data);
      ++taken;
    } catch (const Failure &failure) {
      EXPECT_FALSE(expected) << failure.getMessage();
      EXPECT_NE(failure.getMessage().find("expected row-major order"),
                std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(refused, 2000);
}

TEST(TensorsTest, ChecksVersionAndFlags) {
  DLManagedTensorVersioned managed = {};
  managed.version = {1, 99};
  auto check = [](const DLManagedTensorVersioned *tensor, bool writable) {
    return getFailure([&] { checkManaged(tensor, writable, "it"); });
  };
  EXPECT_EQ(check(&managed, true), "");
  managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_EQ(check(&managed, false), "");
  EXPECT_EQ(check(&managed, true), "it is read-only");
  managed.flags = 4;
  EXPECT_EQ(check(&managed, false),
            "it has padded elements smaller than a byte");
  managed.flags = 0;
  for (uint32_t major : {0, 2, 1000}) {
    managed.version.major = major;
    EXPECT_EQ(check(&managed, false),
              "it is of DLPack " + std::to_string(major) + ".99, expected 1.x");
  }
  EXPECT_EQ(check(nullptr, false), "it is null");
  EXPECT_EQ(getFailure([] { checkTensor(nullptr, kSpec, "it"); }),
            "it is null");
}

TEST(TensorsTest, ChecksSizes) {
  Function function;
  function.symbols = {{{{0, 0}}, 8}, {{{0, 1}, {1, 0}}, std::nullopt}};
  int64_t x[2] = {8, 3}, y[1] = {3}, values[2];
  std::vector<TensorView> views(2);
  views[0].shape = x;
  views[1].shape = y;
  auto check = [&] {
    return getFailure([&] { evaluateSymbols(function, views, values); });
  };
  EXPECT_EQ(check(), "");
  EXPECT_EQ(values[1], 3);
  y[0] = 4;
  EXPECT_EQ(check(), "sizes differ: dimension 1 of argument 0 is 3, dimension "
                     "0 of argument 1 is 4");
  x[0] = 7;
  EXPECT_EQ(check(), "dimension 0 of argument 0 is 7, the function needs 8");
}

TEST(TensorsTest, GivesAHeldTensorBackOnce) {
  TestTensor test;
  int released = 0;
  {
    HeldTensor held(test.tensor);
    held.setRelease([&] { ++released; });
    HeldTensor moved(std::move(held));
    HeldTensor other;
    EXPECT_FALSE(other);
    other = std::move(moved);
    EXPECT_TRUE(other);
    // The caller may change the shape after binding; the checked copy is kept.
    test.shape[0] = 77;
    EXPECT_EQ(other.get().shape[0], 3);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}
