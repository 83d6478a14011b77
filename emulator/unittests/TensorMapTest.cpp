//===- TensorMapTest.cpp - Tensor maps of cuTensorMapEncodeTiled ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/TensorMap.h"
#include "machine/Instruction.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotSupported = 801,
  kUint8 = 0,
  kFloat16 = 6,
  kTF32 = 11,
};

struct alignas(64) Bytes {
  uint8_t bytes[128 + 64];
};

/// Arguments of cuTensorMapEncodeTiled: 40 rows of 80 halves, in boxes of 8
/// rows of 64 halves.
struct Arguments {
  int type = kFloat16;
  unsigned rank = 2;
  uint64_t address = 4096;
  uint64_t sizes[6] = {80, 40, 1, 1, 1, 1};
  uint64_t strides[5] = {160, 6400, 6400, 6400, 6400};
  unsigned box[6] = {64, 8, 1, 1, 1, 1};
  unsigned steps[6] = {1, 1, 1, 1, 1, 1};
  int interleave = 0, swizzle = 3, promotion = 2, fill = 0;
  Bytes result;
  unsigned offset = 0;
  std::string what;

  int encode() {
    return encodeTensorMap(result.bytes + offset, type, rank, address, sizes,
                           strides, box, steps, interleave, swizzle, promotion,
                           fill, what);
  }
};

TEST(TensorMapTest, StoresItsArguments) {
  Arguments arguments;
  arguments.steps[1] = 3;
  ASSERT_EQ(kSuccess, arguments.encode()) << arguments.what;
  TensorMap map = readTensorMap(arguments.result.bytes);
  EXPECT_EQ(4096u, map.address);
  EXPECT_EQ(2u, map.rank);
  EXPECT_EQ(80u, map.sizes[0]);
  EXPECT_EQ(160u, map.strides[0]);
  EXPECT_EQ(128u, map.swizzle);
  EXPECT_FALSE(map.fillsNan);
  // Rows 0, 3 and 6.
  EXPECT_EQ(3u * 128, map.getBoxBytes());
}

TEST(TensorMapTest, IsDistinguishedFromOtherBytes) {
  Bytes bytes = {};
  try {
    (void)readTensorMap(bytes.bytes);
    FAIL();
  } catch (const Fault &fault) {
    EXPECT_EQ(Fault::IllegalInstruction, fault.code);
    EXPECT_STREQ("there is no tensor map", fault.what());
  }
}

/// A change of an argument, the error that encodeTensorMap reports, and
/// optionally the nearest valid change.
struct Case {
  void (*change)(Arguments &);
  const char *what;
  void (*allowed)(Arguments &) = nullptr;
  int code = kInvalidValue;
};

const Case kCases[] = {
    {[](Arguments &a) { a.offset = 32; },
     "a tensor map with an address that is not aligned to 64",
     [](Arguments &a) { a.offset = 64; }},
    {[](Arguments &a) { a.address = 8; },
     "a tensor map with a tensor that begins 8 bytes after a multiple of 16",
     [](Arguments &a) { a.address = 16; }},
    {[](Arguments &a) { a.strides[0] = 168; },
     "a tensor map with a stride of 168 bytes, not a multiple of 16 below "
     "2^40, in dimension 0",
     [](Arguments &a) { a.strides[0] = 176; }},
    {[](Arguments &a) { a.strides[0] = uint64_t(1) << 40; },
     "a tensor map with a stride of 1099511627776 bytes, not a multiple of 16 "
     "below 2^40, in dimension 0",
     [](Arguments &a) { a.strides[0] = (uint64_t(1) << 40) - 16; }},
    {[](Arguments &a) { a.rank = 6; },
     "a tensor map with 6 dimensions, not 1 to 5",
     [](Arguments &a) { a.rank = 5; }},
    {[](Arguments &a) { a.rank = 0; },
     "a tensor map with 0 dimensions, not 1 to 5",
     [](Arguments &a) { a.rank = 1; }},
    {[](Arguments &a) { a.sizes[1] = 0; },
     "a tensor map with 0 elements in dimension 1",
     [](Arguments &a) { a.sizes[1] = 1; }},
    {[](Arguments &a) { a.sizes[1] = (uint64_t(1) << 32) + 1; },
     "a tensor map with 4294967297 elements in dimension 1",
     [](Arguments &a) { a.sizes[1] = uint64_t(1) << 32; }},
    {[](Arguments &a) { a.box[1] = 257; },
     "a tensor map with a box of 257 in dimension 1, not 1 to 256",
     [](Arguments &a) { a.box[1] = 256; }},
    {[](Arguments &a) { a.steps[1] = 9; },
     "a tensor map with steps of 9 in dimension 1, not 1 to 8",
     [](Arguments &a) { a.steps[1] = 8; }},
    {[](Arguments &a) { a.box[0] = 60; },
     "a tensor map with a box of 120 bytes in the first dimension, not a "
     "multiple of 16",
     [](Arguments &a) {
       a.box[0] = 56;
       a.swizzle = 0;
     }},
    {[](Arguments &a) { a.box[0] = 128; },
     "a tensor map with a box of 256 bytes in the first dimension, more than "
     "the swizzle of 128",
     [](Arguments &a) {
       a.box[0] = 128;
       a.swizzle = 0;
     }},
    {[](Arguments &a) { a.swizzle = 1; },
     "a tensor map with a box of 128 bytes in the first dimension, more than "
     "the swizzle of 32",
     [](Arguments &a) {
       a.box[0] = 16;
       a.swizzle = 1;
     }},
    {[](Arguments &a) { a.swizzle = 4; },
     "a tensor map with interleave 0, swizzle 4, promotion 2, fill 0"},
    {[](Arguments &a) { a.type = 16; }, "a tensor map with element type 16"},
    {[](Arguments &a) {
       a.type = kUint8;
       a.fill = 1;
     },
     "a tensor map with NaN to fill integers",
     [](Arguments &a) { a.fill = 1; }},
    // A device supports these.
    {[](Arguments &a) { a.box[0] = 32; },
     "the emulator does not know tensor maps with a box of 64 bytes in the "
     "first dimension, less than the swizzle of 128",
     [](Arguments &a) {
       a.box[0] = 32;
       a.swizzle = 2;
     },
     kNotSupported},
    {[](Arguments &a) { a.type = kTF32; },
     "the emulator does not know tensor maps with element type 11", nullptr,
     kNotSupported},
    {[](Arguments &a) { a.interleave = 1; },
     "the emulator does not know tensor maps with interleave 1", nullptr,
     kNotSupported},
};

TEST(TensorMapTest, RefusesInvalidArguments) {
  for (const Case &test : kCases) {
    Arguments arguments;
    test.change(arguments);
    EXPECT_EQ(test.code, arguments.encode()) << test.what;
    EXPECT_EQ(test.what, arguments.what);
    if (!test.allowed)
      continue;
    Arguments allowed;
    test.allowed(allowed);
    EXPECT_EQ(kSuccess, allowed.encode()) << allowed.what;
  }
}

TEST(TensorMapTest, PermutesChunksByTheAddress) {
  EXPECT_EQ(1024u + 3 * 128 + 16 * 3, swizzle(1024 + 3 * 128, 128));
  EXPECT_EQ(1024u + 3 * 128 + 16 * 2, swizzle(1024 + 3 * 128 + 16, 128));
  // The second bit of the row does not count in 32 bytes.
  EXPECT_EQ(1024u + 3 * 128 + 16, swizzle(1024 + 3 * 128, 32));
  EXPECT_EQ(1024u + 2 * 128, swizzle(1024 + 2 * 128, 32));
  EXPECT_EQ(1024u + 5 * 128 + 16, swizzle(1024 + 5 * 128, 64));
  EXPECT_EQ(1024u + 3 * 128, swizzle(1024 + 3 * 128, 0));
}

} // namespace
