//===- WgmmaTest.cpp - Products of matrices -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"
#include "instructions/MatrixFragments.h"
#include "machine/Formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace fuse::emulator;

namespace {

constexpr unsigned kRows = 64;
/// Shared memory: an mbarrier, then the operands.
constexpr unsigned kA = 1024, kB = kA + 16384, kBytes = kB + 65536;

/// A product of matrices of small numbers.
struct Case {
  unsigned columns = 16;
  std::string sum = "f32", a = "bf16", b = "bf16";
  /// Bytes of the swizzle.
  unsigned swizzle = 128;
  /// Blocks of 32 bytes of K before the ones that are read.
  unsigned step = 0;
  bool isATransposed = false, isBTransposed = false, isAInRegisters = false;
  /// Behind the shape.
  std::string modifier = "";
  int scaleA = 1, scaleB = 1;
  /// Rows of the pattern before the operands.
  unsigned base = 0;
};

unsigned getBytes(const std::string &type) {
  return type == "tf32" ? 4 : type == "bf16" || type == "f16" ? 2 : 1;
}

/// Of an operand; zero or more where there is no sign.
int getNumber(unsigned row, unsigned k, const std::string &type) {
  int number = static_cast<int>((row * 7 + k * 5 + row * k) % 7);
  return type == "u8" ? number : number - 3;
}

uint32_t encode(int number, const std::string &type) {
  if (type == "bf16")
    return encodeFloat(number, kBFloat);
  if (type == "f16")
    return encodeFloat(number, kHalf);
  if (type == "e4m3")
    return encodeFloat(number, kE4M3);
  if (type == "e5m2")
    return encodeFloat(number, kE5M2);
  // The last bits of tf32 do not count.
  if (type == "tf32")
    return encodeFloat(number, kSingle) | 0x1fff;
  return static_cast<uint8_t>(number);
}

unsigned getLog(unsigned value) {
  return value <= 1 ? 0 : 1 + getLog(value / 2);
}

/// Where a chunk of a row is: eight rows are a pattern.
unsigned permute(unsigned chunk, unsigned row, unsigned swizzle) {
  return swizzle == 128  ? chunk ^ row % 8
         : swizzle == 64 ? chunk ^ row % 8 / 2
         : swizzle == 32 ? chunk ^ row % 8 / 4
                         : chunk;
}

/// Operand of `rows` rows as it is in shared memory, with its descriptor.
class Operand {
public:
  Operand(const Case &test, const std::string &type, unsigned rows,
          bool isTransposed, unsigned place)
      : bytes(kBytes) {
    unsigned swizzle = test.swizzle, width = getBytes(type);
    unsigned rowBytes = swizzle ? swizzle : 16;
    unsigned leading, stride;
    if (!isTransposed) {
      stride = 8 * rowBytes * (swizzle ? 1 : 2);
      leading = swizzle ? 16 : 128;
    } else {
      // Both parts of K, then the next rows.
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
        // A pattern that begins later is permuted as if it began there.
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

std::string printRegisters(unsigned count, const std::string &name = "%s") {
  std::string result = "{";
  for (unsigned i = 0; i < count; ++i)
    result += (i ? ", " : "") + name + std::to_string(i);
  return result + "}";
}

/// How many registers a thread has for sums.
unsigned countRegisters(const Case &test) {
  return test.columns / (test.sum == "f16" ? 4 : 2);
}

std::string printProduct(const Case &test, const std::string &sums = "%s",
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

/// A kernel of four warps that has loaded the operands, for `body`; then it
/// stores `count` registers %s of each thread.
std::string makeKernel(const Case &test, const std::string &body,
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

/// What `body` stores in a block of four warps, or its fault.
class Emulation {
public:
  /// If all orders give the same.
  Emulation(const Case &test, const std::string &body, bool isSame = true)
      : count(countRegisters(test)), words(128 * count) {
    Operand a(test, test.a, kRows, test.isATransposed, kA);
    Operand b(test, test.b, test.columns, test.isBTransposed, kB);
    // Registers of A: rows, then halves of K.
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

  /// A sum, by the layout of PTX: two columns of a row are in neighbors.
  uint32_t get(const Case &test, unsigned row, unsigned column) const {
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

/// The product, of which all sums begin with `before`.
int getSum(const Case &test, unsigned row, unsigned column, int before = 0) {
  int sum = 0;
  for (unsigned k = 0; k < 32 / getBytes(test.a); ++k)
    sum += getNumber(row, k, test.a) * getNumber(column, k, test.b);
  return sum * test.scaleA * test.scaleB + before;
}

uint32_t encodeSum(int sum, const Case &test) {
  return test.sum == "f32"   ? encodeFloat(sum, kSingle)
         : test.sum == "f16" ? encodeFloat(sum, kHalf)
                             : static_cast<uint32_t>(sum);
}

/// Sets all sums to the same bits.
std::string setSums(const Case &test, uint32_t bits,
                    const std::string &name = "%s") {
  std::string text;
  for (unsigned i = 0; i < countRegisters(test); ++i)
    text += "  mov.b32 " + name + std::to_string(i) + ", " +
            std::to_string(bits) + ";\n";
  return text;
}

const char *kFence = "  wgmma.fence.sync.aligned;\n";
const char *kCommit = "  wgmma.commit_group.sync.aligned;\n";
const char *kWait = "  wgmma.wait_group.sync.aligned 0;\n";

void check(const Case &test) {
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

TEST(WgmmaTest, HaveAllColumns) {
  for (unsigned columns = 8; columns <= 256; columns += 8) {
    Case test;
    test.columns = columns;
    check(test);
  }
}

TEST(WgmmaTest, HaveAllTypes) {
  const std::array<std::string, 3> types[] = {
      {"f32", "bf16", "bf16"}, {"f32", "f16", "f16"},   {"f16", "f16", "f16"},
      {"f32", "tf32", "tf32"}, {"f32", "e4m3", "e4m3"}, {"f32", "e4m3", "e5m2"},
      {"f32", "e5m2", "e4m3"}, {"f16", "e5m2", "e5m2"}, {"s32", "s8", "s8"},
      {"s32", "s8", "u8"},     {"s32", "u8", "s8"},     {"s32", "u8", "u8"}};
  for (const auto &[sum, a, b] : types)
    for (bool isAInRegisters : {false, true}) {
      Case test;
      test.sum = sum;
      test.a = a;
      test.b = b;
      test.isAInRegisters = isAInRegisters;
      check(test);
    }
}

TEST(WgmmaTest, ReadAllLayouts) {
  for (unsigned swizzle : {0u, 32u, 64u, 128u})
    for (bool isATransposed : {false, true})
      for (bool isBTransposed : {false, true}) {
        Case test;
        test.columns = 136;
        test.swizzle = swizzle;
        test.isATransposed = isATransposed;
        test.isBTransposed = isBTransposed;
        check(test);
      }
}

TEST(WgmmaTest, StepThroughRows) {
  for (auto [swizzle, step] : {std::pair(64u, 1u), {128u, 1u}, {128u, 3u}}) {
    Case test;
    test.swizzle = swizzle;
    test.step = step;
    test.a = test.b = "e4m3";
    check(test);
  }
}

TEST(WgmmaTest, BeginPatternsAnywhere) {
  // Rows of the pattern count from where it begins.
  Case test;
  test.base = 3;
  check(test);
}

TEST(WgmmaTest, ScaleOperands) {
  for (auto [scaleA, scaleB] : {std::pair(-1, 1), {1, -1}, {-1, -1}}) {
    Case test;
    test.scaleA = scaleA;
    test.scaleB = scaleB;
    check(test);
  }
}

TEST(WgmmaTest, DropSumsBefore) {
  Case test;
  Emulation emulation(
      test, setSums(test, 0x7fc00000) + "  setp.ne.u32 %p2, %r1, %r1;\n" +
                kFence + printProduct(test, "%s", "%p2") + kCommit + kWait);
  ASSERT_EQ("", emulation.fault);
  EXPECT_EQ(encodeSum(getSum(test, 9, 3), test), emulation.get(test, 9, 3));
  Emulation kept(test, setSums(test, 0x7fc00000) + kFence + printProduct(test) +
                           kCommit + kWait);
  EXPECT_EQ(0x7fffffffu, kept.get(test, 9, 3));
}

TEST(WgmmaTest, WrapOrSaturateIntegers) {
  Case test;
  test.sum = "s32";
  test.a = test.b = "s8";
  std::string before = setSums(test, 0x7fffffff);
  Emulation wrapped(test,
                    before + kFence + printProduct(test) + kCommit + kWait);
  Case saturated = test;
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

TEST(WgmmaTest, AreCutOffOnce) {
  // 2^25 plus products that are less than the last bit, and more together.
  Case test;
  Emulation emulation(test, setSums(test, 0x4c000000) + kFence +
                                printProduct(test) + kCommit + kWait);
  for (unsigned row = 0; row < kRows; ++row) {
    double sum = 33554432.0 + getSum(test, row, 2);
    double bit = sum < 33554432.0 ? 2 : 4;
    EXPECT_EQ(encodeFloat(std::trunc(sum / bit) * bit, kSingle),
              emulation.get(test, row, 2));
  }
}

/// The sum of products of one row and one column, behind the sum `before`.
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

TEST(WgmmaTest, Keep25DigitsOfProductsOf16Bits) {
  for (Element element : {Element::BF16, Element::F16}) {
    auto add = [&](double value, unsigned count, double before) {
      return addUp(element, std::vector<double>(count, std::fabs(value)),
                   std::vector<double>(count, std::copysign(1, value)), before);
    };
    double bit = std::ldexp(1, -23);
    EXPECT_EQ(1 + bit, add(bit / 4, 4, 1));
    // Towards zero, as everything.
    EXPECT_EQ(1, add(bit / 4, 3, 1));
    EXPECT_EQ(-1, add(-bit / 4, 3, -1));
    EXPECT_EQ(1 - bit, add(-bit / 4, 3, 1));
    // Each is below the digits.
    EXPECT_EQ(1, add(bit / 8, 16, 1));
    // So is what was before.
    EXPECT_EQ(5, add(4, 1, 1 + bit));
  }
}

TEST(WgmmaTest, Keep13DigitsOfProductsOf8Bits) {
  double bit = std::ldexp(1, -13);
  for (Element element : {Element::E4M3, Element::E5M2}) {
    EXPECT_EQ(256 + 256 * bit, addUp(element, {256, 0.25}, {1, 1024 * bit}));
    EXPECT_EQ(256, addUp(element, {256, 0.25}, {1, 512 * bit}));
    // The sum is cut off as well, behind its own digits.
    EXPECT_EQ(2, addUp(element, {1}, {1}, 1 + bit));
  }
}

TEST(WgmmaTest, HaveAnExponentWhereAFactorIsZero) {
  double least = std::ldexp(1, -6);
  EXPECT_EQ(least * least, addUp(Element::E4M3, {0, least}, {1, least}));
  EXPECT_EQ(0, addUp(Element::E4M3, {0, least}, {448, least}));
  EXPECT_EQ(least * least, addUp(Element::E4M3, {least}, {least}, 0));
}

TEST(WgmmaTest, KeepWhatIsNotFinite) {
  double infinity = std::numeric_limits<double>::infinity();
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(infinity, addUp(Element::BF16, {1, infinity}, {1, 1}));
  EXPECT_EQ(-infinity, addUp(Element::BF16, {1}, {1}, -infinity));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {infinity, infinity}, {1, -1})));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {nan}, {1})));
  EXPECT_TRUE(std::isnan(addUp(Element::BF16, {1}, {1}, nan)));
}

TEST(WgmmaTest, HaveDigitsThatWereLookedAt) {
  EXPECT_TRUE(getAlignment(Element::E4M3, Element::E5M2, AccumulatorType::F32));
  EXPECT_FALSE(
      getAlignment(Element::TF32, Element::TF32, AccumulatorType::F32));
  EXPECT_FALSE(getAlignment(Element::F16, Element::F16, AccumulatorType::F16));
  EXPECT_FALSE(getAlignment(Element::S8, Element::U8, AccumulatorType::S32));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

std::string getFault(const std::string &body) {
  return Emulation(Case(), body).fault;
}

#define EXPECT_FAULT(TEXT, BODY)                                               \
  do {                                                                         \
    std::string fault = getFault(BODY);                                        \
    EXPECT_NE(std::string::npos, fault.find(TEXT)) << fault;                   \
  } while (false)

TEST(WgmmaTest, GoOnInTheSameRegisters) {
  Case test;
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

TEST(WgmmaTest, AreUnderWayUntilTheWait) {
  Case test;
  std::string product = setSums(test, 0) + kFence + printProduct(test);
  // Another group, so that the first one can be waited for alone.
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
  // Nothing was committed.
  EXPECT_EQ(0x7fffffffu, Emulation(test, product + kWait).get(test, 1, 1));
  EXPECT_FAULT(
      "register 3 of the accumulators of line 41 was written before the wait "
      "for them",
      product + kCommit + "  mov.b32 %s3, 0;\n" + kWait);
}

TEST(WgmmaTest, KeepWhatTheyRead) {
  Case test;
  std::string store = "  st.shared.u32 [memory+" + std::to_string(kB) +
                      "], 0;\n  bar.sync 0;\n";
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit;
  store = "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB) + "], 0;\n";
  // The wait of one warp is for the product of all four.
  EXPECT_EQ("", getFault(product + kWait + store));
  EXPECT_FAULT("write at 18432 of block (0, 0, 0) while wgmma.mma_async.sync."
               "aligned.m64n16k16.f32.bf16.bf16 of line 41 still reads it",
               product + "  bar.sync 0;\n" + store + kWait);
  // The first bytes are those of the first K.
  std::string beside =
      "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB + 32) + "], 0;\n";
  EXPECT_EQ("", getFault(product + "  bar.sync 0;\n" + beside + kWait));
}

TEST(WgmmaTest, ReadWhatIsThere) {
  Case test;
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit + kWait;
  // All have seen the first phase before it goes on.
  std::string copy = R"(
  bar.sync 0;
  ld.param.u64 %rd2, [b];
  @%p1 bra $behind;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [memory], 1024;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     std::to_string(kB) + R"(], [%rd2], 1024, [memory];
$behind:
)";
  std::string wait = R"(
$again:
  mbarrier.try_wait.parity.shared.b64 %wait, [memory], 1;
  @!%wait bra $again;
)";
  EXPECT_EQ("", getFault(copy + wait + product));
  EXPECT_FAULT("in no order with line", copy + product + wait);
  // What others stored is seen behind a fence of the proxy.
  std::string store =
      "  @!%p1 st.shared.u32 [memory+" + std::to_string(kB) + "], 0;\n";
  std::string fence = "  fence.proxy.async.shared::cta;\n";
  EXPECT_EQ("", getFault(store + fence + "  bar.sync 0;\n" + product));
  EXPECT_FAULT("without fence.proxy.async in between",
               store + "  bar.sync 0;\n" + product);
  EXPECT_FAULT("in no order with line", store + fence + product);
}

TEST(WgmmaTest, MayReadRowsThatNobodyNeeds) {
  // Of 64 rows ten are loaded, and there is a copy to the place of row 20.
  Case test;
  std::string row = std::to_string(kA + 20 * 128);
  std::string copy = R"(
  bar.sync 0;
  ld.param.u64 %rd2, [b];
  @%p1 bra $behind;
  mbarrier.arrive.expect_tx.shared.b64 %rd3, [memory], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [memory+)" +
                     row + R"(], [%rd2], 128, [memory];
$behind:
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
  // Those of the first rows are needed.
  auto replaceRow = [&](std::string text) {
    return text.replace(text.find(row), row.size(),
                        std::to_string(kA + 7 * 128));
  };
  EXPECT_FAULT("in no order with line",
               replaceRow(copy) + product + kWait + wait);
  EXPECT_FAULT("still reads it", product + replaceRow(copy) + kWait + wait);
}

TEST(WgmmaTest, NeedFences) {
  Case test;
  std::string product = printProduct(test);
  EXPECT_FAULT("there is no wgmma.fence before it",
               setSums(test, 0) + product + kCommit + kWait);
  EXPECT_FAULT("line 48 (mov.b32) writes one of its registers without "
               "wgmma.fence in between",
               kFence + setSums(test, 0, "%t") + setSums(test, 0) + product +
                   kCommit + kWait);
  EXPECT_EQ("", getFault(setSums(test, 0) + kFence + setSums(test, 0, "%t") +
                         product + kCommit + kWait));
  Case registers;
  registers.isAInRegisters = true;
  std::string move = "  mov.b32 %a2, %a1;\n";
  EXPECT_FAULT("writes one of its registers", setSums(test, 0) + kFence + move +
                                                  printProduct(registers) +
                                                  kCommit + kWait);
  EXPECT_EQ("", getFault(setSums(test, 0) + kFence + move + product + kCommit +
                         kWait));
}

TEST(WgmmaTest, ShareNoRegisters) {
  Case test, wide;
  wide.columns = 32;
  std::string body = setSums(wide, 0) + kFence + printProduct(test);
  EXPECT_FAULT("some of its registers are pending accumulators of line 49, "
               "whose shape differs",
               body + printProduct(wide) + kCommit + kWait);
  EXPECT_EQ("", getFault(body + kCommit + kWait + kFence + printProduct(wide) +
                         kCommit + kWait));
}

TEST(WgmmaTest, AreForFourWholeWarps) {
  Case test;
  std::string product =
      setSums(test, 0) + kFence + printProduct(test) + kCommit + kWait;
  EXPECT_FAULT("the descriptor of B differs in a warp",
               "  @!%p1 add.s64 %db, %db, 2;\n" + product);
  EXPECT_FAULT("scale-d differs in a warp",
               setSums(test, 0) + kFence + printProduct(test, "%s", "%p1"));
  EXPECT_FAULT("wgmma is for four warps with all of their threads",
               "  @!%p1 exit;\n" + product);
}

TEST(WgmmaTest, StayInSharedMemory) {
  Case test;
  EXPECT_FAULT("which has those from 1024 to",
               "  mov.b64 %da, 4611686293305294848;\n" + setSums(test, 0) +
                   kFence + printProduct(test));
}

//===----------------------------------------------------------------------===//
// Products of one warp
//===----------------------------------------------------------------------===//

/// One warp, to whose shared memory 16 rows of A and eight of B have been
/// loaded, 32 bytes each; it stores eight registers %s of each thread.
std::vector<uint32_t> runWarp(const std::vector<uint8_t> &in,
                              const std::string &body) {
  std::string text = R"(
.visible .entry test(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<16>, %s<8>, %a<4>, %b<2>, %v<4>;
  .reg .b64 %rd<8>;
  .shared .align 16 .b8 memory[2048];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 32;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, memory;
  mad.lo.u32 %r3, %r1, 32, %r2;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd4];
  st.shared.v4.u32 [%r3], {%v0, %v1, %v2, %v3};
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd4+16];
  st.shared.v4.u32 [%r3+16], {%v0, %v1, %v2, %v3};
  bar.warp.sync -1;
  // Rows of four matrices: the lower rows first, then the next half of K.
  and.b32 %r4, %r1, 15;
  shr.u32 %r5, %r1, 4;
  shl.b32 %r4, %r4, 5;
  shl.b32 %r5, %r5, 4;
  add.u32 %r6, %r2, %r4;
  add.u32 %r6, %r6, %r5;
  // Of two matrices.
  and.b32 %r4, %r1, 7;
  bfe.u32 %r5, %r1, 3, 1;
  shl.b32 %r4, %r4, 5;
  shl.b32 %r5, %r5, 4;
  add.u32 %r7, %r2, %r4;
  add.u32 %r7, %r7, %r5;
)" + body;
  for (unsigned i = 0; i < 8; ++i)
    text += "  st.global.u32 [%rd4+" + std::to_string(4 * i) + "], %s" +
            std::to_string(i) + ";\n";
  text += "  ret;\n}";
  Machine machine;
  uint64_t from = machine.allocate(1024), to = machine.allocate(1024);
  std::memcpy(reinterpret_cast<void *>(from), in.data(), in.size());
  launch(machine, text, makeShape(1, 32), {from, to});
  EXPECT_EQ("", fuse::emulator::getFault([&] { machine.synchronize(); }));
  std::vector<uint32_t> words(256);
  std::memcpy(words.data(), reinterpret_cast<void *>(to), 1024);
  return words;
}

const char *kStoreThere = "  add.s64 %rd4, %rd2, %rd3;\n";

TEST(WgmmaTest, MultiplyInOneWarp) {
  const std::array<std::string, 3> types[] = {
      {"f32", "bf16", "bf16"}, {"f32", "f16", "f16"},   {"f16", "f16", "f16"},
      {"f32", "tf32", "tf32"}, {"f32", "e4m3", "e5m2"}, {"s32", "s8", "u8"}};
  for (const auto &[sum, a, b] : types) {
    unsigned width = getBytes(a);
    std::vector<uint8_t> in(1024);
    for (unsigned row = 0; row < 24; ++row)
      for (unsigned k = 0; k < 32 / width; ++k) {
        bool isB = row >= 16;
        const std::string &type = isB ? b : a;
        uint32_t bits = encode(getNumber(isB ? row - 16 : row, k, type), type);
        std::memcpy(&in[row * 32 + k * width], &bits, width);
      }
    Case test;
    test.columns = 8;
    test.sum = sum;
    test.a = a;
    test.b = b;
    unsigned count = countRegisters(test);
    std::string sums = printRegisters(count);
    std::vector<uint32_t> words = runWarp(
        in,
        "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, "
        "[%r6];\n  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%b0, %b1}, "
        "[%r7+512];\n" +
            setSums(test, encodeSum(5, test) * (sum == "f16" ? 0x10001 : 1)) +
            "  mma.sync.aligned.m16n8k" + std::to_string(32 / width) +
            ".row.col." + sum + "." + a + "." + b + "." + sum + " " + sums +
            ", {%a0, %a1, %a2, %a3}, {%b0, %b1}, " + sums + ";\n" +
            kStoreThere);
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned column = 0; column < 8; ++column) {
        unsigned thread = row % 8 * 4 + column / 2;
        bool isHalf = sum == "f16";
        uint32_t word =
            words[thread * 8 + (isHalf ? row / 8 : row / 8 * 2 + column % 2)];
        if (isHalf)
          word = word >> column % 2 * 16 & 0xffff;
        EXPECT_EQ(encodeSum(getSum(test, row, column, 5), test), word)
            << sum << " " << a << " " << row << " " << column;
      }
  }
}

TEST(WgmmaTest, MoveMatrices) {
  // Halves that differ: row * 16 + column.
  std::vector<uint8_t> in(1024);
  for (unsigned i = 0; i < 512; ++i)
    std::memcpy(&in[2 * i], &i, 2);
  auto get = [](unsigned row, unsigned column) { return row * 16 + column; };
  std::vector<uint32_t> words = runWarp(in, std::string(R"(
  ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%s0}, [%r7];
  ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%s1, %s2}, [%r7];
  stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r7+512], {%s1, %s2};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%s3, %s4}, [%r7+512];
)") + kStoreThere);
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned row = lane / 4, column = lane % 4 * 2;
    const uint32_t *found = &words[lane * 8];
    EXPECT_EQ(get(column, row) | get(column + 1, row) << 16, found[0]);
    for (unsigned half : {0u, 1u}) {
      EXPECT_EQ(get(row, half * 8 + column) | get(row, half * 8 + column + 1)
                                                  << 16,
                found[1 + half]);
      EXPECT_EQ(get(column, half * 8 + row) | get(column + 1, half * 8 + row)
                                                  << 16,
                found[3 + half]);
    }
  }
}

TEST(WgmmaTest, RefuseFormsThatThereAreNot) {
  auto refuse = [](const Case &test) {
    Machine machine;
    try {
      (void)compile(machine, makeKernel(test, printProduct(test), 1));
    } catch (const std::runtime_error &error) {
      std::string what = error.what();
      return what.substr(what.find(": ") + 2);
    }
    return std::string();
  };
  Case test;
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
  test = Case();
  test.sum = "f16";
  EXPECT_EQ("there is no wgmma of these types", refuse(test));
  test = Case();
  test.b = "f16";
  EXPECT_EQ("there is no wgmma of these types", refuse(test));
  test = Case();
  test.scaleA = 2;
  EXPECT_EQ("a scale of A or B is 1 or -1", refuse(test));
}

} // namespace
