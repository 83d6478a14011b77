//===- WgmmaTest.cpp - Matrix products of a warpgroup ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"
#include "MatrixCase.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

constexpr unsigned kRows = 64;
/// Shared memory: an mbarrier, then the operands.
constexpr unsigned kA = 1024, kB = kA + 16384, kBytes = kB + 65536;

unsigned getLog(unsigned value) {
  return value <= 1 ? 0 : 1 + getLog(value / 2);
}

/// The position of a chunk of a row. The pattern has eight rows.
unsigned permute(unsigned chunk, unsigned row, unsigned swizzle) {
  return swizzle == 128  ? chunk ^ row % 8
         : swizzle == 64 ? chunk ^ row % 8 / 2
         : swizzle == 32 ? chunk ^ row % 8 / 4
                         : chunk;
}

/// An operand with `rows` rows in shared memory, and its descriptor.
class Operand {
public:
  Operand(const MatrixCase &test, const std::string &type, unsigned rows,
          bool isTransposed, unsigned place)
      : bytes(kBytes) {
    unsigned swizzle = test.swizzle, width = getBytes(type);
    unsigned rowBytes = swizzle ? swizzle : 16;
    unsigned leading, stride;
    if (!isTransposed) {
      stride = 8 * rowBytes * (swizzle ? 1 : 2);
      leading = swizzle ? 16 : 128;
    } else {
      // Both halves of K, then the next rows.
      unsigned part = 8 * rowBytes;
      leading = swizzle ? 2 * part : part;
      stride = swizzle ? part : 2 * part;
    }
    for (unsigned row = 0; row < rows; ++row)
      for (unsigned k = 0; k < 32 / width; ++k) {
        unsigned line, at, offset;
        if (!isTransposed) {
          unsigned byte = k * width + test.step * 32;
          line = row % 8;
          at = byte % rowBytes;
          offset = row / 8 * stride + byte / rowBytes * leading;
        } else {
          unsigned perLine = rowBytes / 2;
          line = k % 8;
          at = row % perLine * 2;
          offset = swizzle ? row / perLine * leading + k / 8 * stride
                           : row / perLine * stride + k / 8 * leading;
        }
        // The pattern starts at the row `base`.
        unsigned chunk = permute(at / 16, line, swizzle);
        uint32_t bits = encode(getNumber(row, k, type), type);
        std::memcpy(&bytes[offset + line * rowBytes + chunk * 16 + at % 16],
                    &bits, width);
      }
    unsigned start = kSharedBase + place + test.base * 128 +
                     (isTransposed ? 0 : test.step * 32);
    descriptor = start >> 4 | uint64_t(leading >> 4) << 16 |
                 uint64_t(stride >> 4) << 32 | uint64_t(test.base) << 49;
    if (swizzle)
      descriptor |= uint64_t(8 - getLog(swizzle)) << 62;
  }

  std::vector<uint8_t> bytes;
  uint64_t descriptor;
};

std::string printProduct(const MatrixCase &test, const std::string &sums = "%s",
                         const std::string &scale = "%p0") {
  unsigned width = getBytes(test.a);
  std::string text =
      "  wgmma.mma_async.sync.aligned.m64n" + std::to_string(test.columns) +
      "k" + std::to_string(32 / width) + test.modifier + "." + test.sum + "." +
      test.a + "." + test.b + " " + printRegisters(countRegisters(test), sums) +
      ", " + (test.isAInRegisters ? printRegisters(4, "%a") : "%da") +
      ", %db, " + scale;
  if (test.sum != "s32")
    text +=
        ", " + std::to_string(test.scaleA) + ", " + std::to_string(test.scaleB);
  if (width == 2) {
    if (!test.isAInRegisters)
      text += test.isATransposed ? ", 1" : ", 0";
    text += test.isBTransposed ? ", 1" : ", 0";
  }
  return text + ";\n";
}

/// A kernel of four warps that loads the operands, executes `body` and stores
/// `count` registers %s of each thread.
std::string makeKernel(const MatrixCase &test, const std::string &body,
                       unsigned count) {
  std::string text = R"(
.visible .entry test(.param .u64 a, .param .u64 b, .param .u64 fragments,
                     .param .u64 out, .param .u64 da, .param .u64 db) {
  .reg .pred %p<4>, %wait;
  .reg .b32 %r<8>, %s<160>, %t<160>, %a<4>;
  .reg .b64 %rd<8>, %da, %db;
  .shared .align 1024 .b8 memory[)" +
                     std::to_string(kBytes) + R"(];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared.b64 [memory], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %da, [da];
  ld.param.u64 %db, [db];
  setp.eq.u32 %p0, %r1, %r1;
  @%p1 bra $wait;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [memory], )" +
                     std::to_string(8192 + 32768) + R"(;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     std::to_string(kA + test.base * 128) +
                     R"(], [%rd1], 8192, [memory];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     std::to_string(kB + test.base * 128) +
                     R"(], [%rd2], 32768, [memory];
$wait:
  mbarrier.try_wait.parity.shared.b64 %wait, [memory], 0;
  @!%wait bra $wait;
  ld.param.u64 %rd1, [fragments];
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd1];
)" + body + R"(
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, )" +
                     std::to_string(4 * count) + R"(;
  add.s64 %rd1, %rd1, %rd2;
)";
  for (unsigned i = 0; i < count; ++i)
    text += "  st.global.u32 [%rd1+" + std::to_string(4 * i) + "], %s" +
            std::to_string(i) + ";\n";
  return text + "  ret;\n}";
}

/// Runs `body` in a block of four warps. The result is what it stores, or its
/// fault.
class Emulation {
public:
  /// `isSame`: all seeds must give the same result.
  Emulation(const MatrixCase &test, const std::string &body, bool isSame = true)
      : count(countRegisters(test)), words(128 * count) {
    Operand a(test, test.a, kRows, test.isATransposed, kA);
    Operand b(test, test.b, test.columns, test.isBTransposed, kB);
    // Fragments of A: rows, then halves of K.
    std::vector<uint8_t> fragments(128 * 16);
    unsigned width = getBytes(test.a);
    for (unsigned i = 0; i < fragments.size() / width; ++i) {
      unsigned byte = i * width, thread = byte / 16, number = byte % 16 / 4;
      unsigned row = thread / 32 * 16 + thread % 32 / 4 + number % 2 * 8;
      unsigned k = (number / 2 * 16 + thread % 4 * 4 + byte % 4) / width;
      uint32_t bits = encode(getNumber(row, k, test.a), test.a);
      std::memcpy(&fragments[byte], &bits, width);
    }
    std::string text = makeKernel(test, body, count);
    for (uint64_t seed : {0, 1, 2}) {
      Machine machine(Limits(), seed);
      auto allocate = [&](const std::vector<uint8_t> &bytes) {
        uint64_t address = machine.allocate(bytes.size());
        std::memcpy(reinterpret_cast<void *>(address), bytes.data(),
                    bytes.size());
        return address;
      };
      uint64_t out = machine.allocate(words.size() * 4);
      std::vector<uint64_t> parameters = {
          allocate(a.bytes), allocate(b.bytes), allocate(fragments), out,
          a.descriptor,      b.descriptor};
      fault = getFault([&] {
        launch(machine, text, makeShape(1, 128), parameters);
        machine.synchronize();
      });
      if (!fault.empty())
        return;
      std::vector<uint32_t> found(words.size());
      std::memcpy(found.data(), reinterpret_cast<void *>(out),
                  4 * found.size());
      if (seed == 0)
        words = found;
      if (isSame)
        EXPECT_EQ(words, found) << "seed " << seed;
    }
  }

  /// A sum in the register layout of PTX: neighboring registers have two
  /// columns of a row.
  uint32_t get(const MatrixCase &test, unsigned row, unsigned column) const {
    unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    bool isHalf = test.sum == "f16";
    unsigned number = column / 8 * 2 + row % 16 / 8;
    unsigned at = isHalf ? number : number * 2 + column % 2;
    uint32_t word = words[thread * count + at];
    return isHalf ? word >> column % 2 * 16 & 0xffff : word;
  }

  unsigned count;
  std::vector<uint32_t> words;
  std::string fault;
};

const char *kFence = "  wgmma.fence.sync.aligned;\n";
const char *kCommit = "  wgmma.commit_group.sync.aligned;\n";
const char *kWait = "  wgmma.wait_group.sync.aligned 0;\n";

void check(const MatrixCase &test) {
  std::string body =
      setSums(test, encodeSum(5, test) * (test.sum == "f16" ? 0x10001 : 1)) +
      kFence + printProduct(test) + kCommit + kWait;
  Emulation emulation(test, body);
  ASSERT_EQ("", emulation.fault);
  for (unsigned row = 0; row < kRows; ++row)
    for (unsigned column = 0; column < test.columns; ++column)
      ASSERT_EQ(encodeSum(getSum(test, row, column, 5), test),
                emulation.get(test, row, column))
          << printProduct(test) << "row " << row << ", column " << column
          << ", swizzle " << test.swizzle;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

TEST(WgmmaTest, SupportsAllColumns) {
  for (unsigned columns = 8; columns <= 256; columns += 8) {
    MatrixCase test;
    test.columns = columns;
    check(test);
  }
}

TEST(WgmmaTest, SupportsAllTypes) {
  const std::array<std::string, 3> types[] = {
      {"f32", "bf16", "bf16"}, {"f32", "f16", "f16"},   {"f16", "f16", "f16"},
      {"f32", "tf32", "tf32"}, {"f32", "e4m3", "e4m3"}, {"f32", "e4m3", "e5m2"},
      {"f32", "e5m2", "e4m3"}, {"f16", "e5m2", "e5m2"}, {"s32", "s8", "s8"},
      {"s32", "s8", "u8"},     {"s32", "u8", "s8"},     {"s32", "u8", "u8"}};
  for (const auto &[sum, a, b] : types)
    for (bool isAInRegisters : {false, true}) {
      MatrixCase test;
      test.sum = sum;
      test.a = a;
      test.b = b;
      test.isAInRegisters = isAInRegisters;
      check(test);
    }
}

TEST(WgmmaTest, ReadsAllLayouts) {
  for (unsigned swizzle : {0u, 32u, 64u, 128u})
    for (bool isATransposed : {false, true})
      for (bool isBTransposed : {false, true}) {
        MatrixCase test;
        test.columns = 136;
        test.swizzle = swizzle;
        test.isATransposed = isATransposed;
        test.isBTransposed = isBTransposed;
        check(test);
      }
}

TEST(WgmmaTest, StepsThroughRows) {
  for (auto [swizzle, step] : {std::pair(64u, 1u), {128u, 1u}, {128u, 3u}}) {
    MatrixCase test;
    test.swizzle = swizzle;
    test.step = step;
    test.a = test.b = "e4m3";
    check(test);
  }
}

TEST(WgmmaTest, StartsPatternsAnywhere) {
  // The swizzle pattern may start at any row.
  MatrixCase test;
  test.base = 3;
  check(test);
}

TEST(WgmmaTest, ScalesOperands) {
  for (auto [scaleA, scaleB] : {std::pair(-1, 1), {1, -1}, {-1, -1}}) {
    MatrixCase test;
    test.scaleA = scaleA;
    test.scaleB = scaleB;
    check(test);
  }
}

TEST(WgmmaTest, DropsPreviousSums) {
  MatrixCase test;
  Emulation emulation(
      test, setSums(test, 0x7fc00000) + "  setp.ne.u32 %p2, %r1, %r1;\n" +
                kFence + printProduct(test, "%s", "%p2") + kCommit + kWait);
  ASSERT_EQ("", emulation.fault);
  EXPECT_EQ(encodeSum(getSum(test, 9, 3), test), emulation.get(test, 9, 3));
  Emulation kept(test, setSums(test, 0x7fc00000) + kFence + printProduct(test) +
                           kCommit + kWait);
  EXPECT_EQ(0x7fffffffu, kept.get(test, 9, 3));
}

TEST(WgmmaTest, WrapsOrSaturatesIntegers) {
  MatrixCase test;
  test.sum = "s32";
  test.a = test.b = "s8";
  std::string before = setSums(test, 0x7fffffff);
  Emulation wrapped(test,
                    before + kFence + printProduct(test) + kCommit + kWait);
  MatrixCase saturated = test;
  saturated.modifier = ".satfinite";
  Emulation stopped(test, before + kFence + printProduct(saturated) + kCommit +
                              kWait);
  bool hasOverflown = false;
  for (unsigned row = 0; row < kRows; ++row) {
    int sum = getSum(test, row, 1);
    hasOverflown |= sum > 0;
    EXPECT_EQ(0x7fffffffu + static_cast<uint32_t>(sum),
              wrapped.get(test, row, 1));
    EXPECT_EQ(0x7fffffffu + static_cast<uint32_t>(std::min(sum, 0)),
              stopped.get(test, row, 1));
  }
  EXPECT_TRUE(hasOverflown);
}

TEST(WgmmaTest, TruncatesSumsOnce) {
  // 2^25 plus products that are each below its last bit, but not in total.
  MatrixCase test;
  Emulation emulation(test, setSums(test, 0x4c000000) + kFence +
                                printProduct(test) + kCommit + kWait);
  for (unsigned row = 0; row < kRows; ++row) {
    double sum = 33554432.0 + getSum(test, row, 2);
    double bit = sum < 33554432.0 ? 2 : 4;
    EXPECT_EQ(encodeFloat(std::trunc(sum / bit) * bit, kSingle),
              emulation.get(test, row, 2));
  }
}

//===----------------------------------------------------------------------===//
// Fences and waits
//===----------------------------------------------------------------------===//

std::string getFault(const std::string &body) {
  return Emulation(MatrixCase(), body).fault;
}

#define EXPECT_FAULT(TEXT, BODY)                                               \
  do {                                                                         \
    std::string fault = getFault(BODY);                                        \
    EXPECT_NE(std::string::npos, fault.find(TEXT)) << fault;                   \
  } while (false)

TEST(WgmmaTest, ContinuesInTheSameRegisters) {
  MatrixCase test;
  std::string product = printProduct(test);
  std::string body = setSums(test, 0) + kFence + product + product + kCommit +
                     kFence + product + kCommit +
                     "  wgmma.wait_group.sync.aligned 1;\n" + kFence + product +
                     kCommit + kWait;
  Emulation emulation(test, body);
  ASSERT_EQ("", emulation.fault);
  for (unsigned row = 0; row < kRows; ++row)
    EXPECT_EQ(encodeSum(4 * getSum(test, row, 2), test),
              emulation.get(test, row, 2));
}

TEST(WgmmaTest, IsPendingUntilTheWait) {
  MatrixCase test;
  std::string product = setSums(test, 0) + kFence + printProduct(test);
  // A second group, so that one can wait for the first group alone.
  std::string other =
      setSums(test, 0, "%t") + kFence + printProduct(test, "%t") + kCommit;
  std::string first = "  wgmma.wait_group.sync.aligned 1;\n";
  uint32_t sum = encodeSum(getSum(test, 1, 1), test);
  EXPECT_EQ(sum, Emulation(test, product + kCommit + other + first + kWait)
                     .get(test, 1, 1));
  for (const std::string &wait : {std::string(), first}) {
    Emulation emulation(test, product + kCommit + wait);
    EXPECT_EQ("", emulation.fault);
    EXPECT_EQ(0x7fffffffu, emulation.get(test, 1, 1)) << wait;
  }
  // Nothing is committed.
  EXPECT_EQ(0x7fffffffu, Emulation(test, product + kWait).get(test, 1, 1));
  EXPECT_FAULT(
      "register 3 of the accumulators of line 41 was written before the wait "
      "for them",
      product + kCommit + "  mov.b32 %s3, 0;\n" + kWait);
}

TEST(WgmmaTest, ProtectsOperands) {
  MatrixCase test;
  std::string store = "  st.shared.u32 [memory+" + std::to_string(kB) +
                      "], 0;\n  bar.sync 0;\n";
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit;
  store = "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB) + "], 0;\n";
  // The wait of one warp covers the product of all four.
  EXPECT_EQ("", getFault(product + kWait + store));
  EXPECT_FAULT("write at 18432 of block (0, 0, 0) while wgmma.mma_async.sync."
               "aligned.m64n16k16.f32.bf16.bf16 of line 41 still reads it",
               product + "  bar.sync 0;\n" + store + kWait);
  // The product reads only the first 32 bytes of each row.
  std::string beside =
      "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB + 32) + "], 0;\n";
  EXPECT_EQ("", getFault(product + "  bar.sync 0;\n" + beside + kWait));
}

TEST(WgmmaTest, ReadsVisibleOperands) {
  MatrixCase test;
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit + kWait;
  // All threads have passed the first phase.
  std::string copy = R"(
  bar.sync 0;
  ld.param.u64 %rd2, [b];
  @%p1 bra $after;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [memory], 1024;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     std::to_string(kB) + R"(], [%rd2], 1024, [memory];
$after:
)";
  std::string wait = R"(
$again:
  mbarrier.try_wait.parity.shared.b64 %wait, [memory], 1;
  @!%wait bra $again;
)";
  EXPECT_EQ("", getFault(copy + wait + product));
  EXPECT_FAULT("in no order with line", copy + product + wait);
  // Stores of other threads are visible after a proxy fence.
  std::string store =
      "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB) + "], 0;\n";
  std::string fence = "  fence.proxy.async.shared::cta;\n";
  EXPECT_EQ("", getFault(store + fence + "  bar.sync 0;\n" + product));
  EXPECT_FAULT("without fence.proxy.async in between",
               store + "  bar.sync 0;\n" + product);
  EXPECT_FAULT("in no order with line", store + fence + product);
}

TEST(WgmmaTest, MayReadUnusedRows) {
  // Ten of 64 rows are loaded, and a copy writes row 20.
  MatrixCase test;
  std::string row = std::to_string(kA + 20 * 128);
  std::string copy = R"(
  bar.sync 0;
  ld.param.u64 %rd2, [b];
  @%p1 bra $after;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [memory], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     row + R"(], [%rd2], 128, [memory];
$after:
  bar.sync 0;
)";
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit;
  std::string wait = R"(
$again:
  mbarrier.try_wait.parity.shared.b64 %wait, [memory], 1;
  @!%wait bra $again;
)";
  for (const std::string &body :
       {copy + product + kWait + wait, product + copy + kWait + wait}) {
    Emulation emulation(test, body, /*isSame=*/false);
    ASSERT_EQ("", emulation.fault);
    EXPECT_EQ(encodeSum(getSum(test, 19, 3), test), emulation.get(test, 19, 3));
    EXPECT_EQ(encodeSum(getSum(test, 21, 3), test), emulation.get(test, 21, 3));
  }
  Emulation early(test, copy + product + kWait + wait);
  ASSERT_EQ("", early.fault);
  EXPECT_EQ(0x7fffffffu, early.get(test, 20, 3));
  // The first eight rows always count as used.
  auto replaceRow = [&](std::string text) {
    return text.replace(text.find(row), row.size(),
                        std::to_string(kA + 7 * 128));
  };
  EXPECT_FAULT("in no order with line",
               replaceRow(copy) + product + kWait + wait);
  EXPECT_FAULT("still reads it", product + replaceRow(copy) + kWait + wait);
}

TEST(WgmmaTest, NeedsFences) {
  MatrixCase test;
  std::string product = printProduct(test);
  EXPECT_FAULT("there is no wgmma.fence before it",
               setSums(test, 0) + product + kCommit + kWait);
  EXPECT_FAULT("line 48 (mov.b32) writes one of its registers without "
               "wgmma.fence in between",
               kFence + setSums(test, 0, "%t") + setSums(test, 0) + product +
                   kCommit + kWait);
  EXPECT_EQ("", getFault(setSums(test, 0) + kFence + setSums(test, 0, "%t") +
                         product + kCommit + kWait));
  MatrixCase registers;
  registers.isAInRegisters = true;
  std::string move = "  mov.b32 %a2, %a1;\n";
  EXPECT_FAULT("writes one of its registers", setSums(test, 0) + kFence + move +
                                                  printProduct(registers) +
                                                  kCommit + kWait);
  EXPECT_EQ("", getFault(setSums(test, 0) + kFence + move + product + kCommit +
                         kWait));
}

TEST(WgmmaTest, RefusesSharedRegisters) {
  MatrixCase test, wide;
  wide.columns = 32;
  std::string body = setSums(wide, 0) + kFence + printProduct(test);
  EXPECT_FAULT("some of its registers are pending accumulators of line 49, "
               "whose shape differs",
               body + printProduct(wide) + kCommit + kWait);
  EXPECT_EQ("", getFault(body + kCommit + kWait + kFence + printProduct(wide) +
                         kCommit + kWait));
}

TEST(WgmmaTest, NeedsFourWholeWarps) {
  MatrixCase test;
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit + kWait;
  EXPECT_FAULT("the descriptor of B differs in a warp",
               "  @!%p1 add.s64 %db, %db, 2;\n" + product);
  EXPECT_FAULT("scale-d differs in a warp",
               setSums(test, 0) + kFence + printProduct(test, "%s", "%p1"));
  EXPECT_FAULT("wgmma requires four warps with all of their threads",
               "  @!%p1 exit;\n" + product);
}

TEST(WgmmaTest, ChecksDescriptors) {
  MatrixCase test;
  EXPECT_FAULT("which has addresses from 1024 to",
               "  mov.b64 %da, 4611686293305294848;\n" + setSums(test, 0) +
                   kFence + printProduct(test));
}

TEST(WgmmaTest, RefusesUnknownForms) {
  auto refuse = [](const MatrixCase &test) {
    Machine machine;
    try {
      (void)compile(machine, makeKernel(test, printProduct(test), 1));
    } catch (const std::runtime_error &error) {
      std::string what = error.what();
      return what.substr(what.find(": ") + 2);
    }
    return std::string();
  };
  MatrixCase test;
  EXPECT_EQ("", refuse(test));
  test.columns = 12;
  EXPECT_EQ("there is no wgmma of m64n12k16 for these types", refuse(test));
  test.columns = 264;
  EXPECT_EQ("there is no wgmma of m64n264k16 for these types", refuse(test));
  test.columns = 40;
  EXPECT_EQ("", refuse(test));
  test.a = test.b = "s8";
  test.sum = "s32";
  EXPECT_EQ("there is no wgmma of m64n40k32 for these types", refuse(test));
  test.sum = "f32";
  EXPECT_EQ("there is no wgmma of these types", refuse(test));
  test.a = "b1";
  EXPECT_EQ("the emulator does not know products of b1", refuse(test));
  test = MatrixCase();
  test.sum = "f16";
  EXPECT_EQ("there is no wgmma of these types", refuse(test));
  test = MatrixCase();
  test.b = "f16";
  EXPECT_EQ("there is no wgmma of these types", refuse(test));
  test = MatrixCase();
  test.scaleA = 2;
  EXPECT_EQ("a scale of A or B must be 1 or -1", refuse(test));
}

} // namespace
