//===- ArithmeticTest.cpp - Integers and bits -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compute.h"

using namespace fuse::emulator;

namespace {

constexpr uint64_t kMinus = UINT64_MAX;

TEST(ArithmeticTest, AddsModuloItsWidth) {
  EXPECT_EQ(0u, compute32("add.u32", "%r1, 1", {UINT32_MAX}));
  EXPECT_EQ(4u, compute64("add.s64", "%rd1, -1", {5}));
  EXPECT_EQ(0xfffeu, compute16("sub.s16", "%h1, %h2", {3, 5}));
  EXPECT_EQ(0x7fffffffu, compute32("add.sat.s32", "%r1, 1", {0x7fffffff}));
  EXPECT_EQ(0x80000000u, compute32("sub.sat.s32", "%r1, 1", {0x80000000}));
  EXPECT_EQ(0x0001ffffu,
            compute32("add.u16x2", "%r1, %r2", {0xffff8000, 0x00027fff}));
  EXPECT_EQ("line 7: the emulator does not know add with .sat",
            refuse("add.sat.u32 %r0, %r1, %r2;"));
  EXPECT_EQ("line 7: the emulator does not know add of .b32",
            refuse("add.b32 %r0, %r1, %r2;"));
}

TEST(ArithmeticTest, ChecksOperands) {
  EXPECT_EQ("line 7: operand 1 of add must be a register of 32 bits or a "
            "number",
            refuse("add.s32 %r0, %rd1, %r2;"));
  EXPECT_EQ("line 7: operand 0 of add must be a register of 32 bits or _",
            refuse("add.s32 %p0, %r1, %r2;"));
  EXPECT_EQ("line 7: add has 2 operands here, expected 3",
            refuse("add.s32 %r0, %r1;"));
  EXPECT_EQ("line 7: add has no type that the emulator knows",
            refuse("add %r0, %r1, %r2;"));
}

TEST(ArithmeticTest, MultipliesToAllParts) {
  EXPECT_EQ(0xfffffffdu, compute32("mul.lo.s32", "%r1, 3", {kMinus}));
  EXPECT_EQ(0xffffffffu, compute32("mul.hi.s32", "%r1, 3", {kMinus}));
  EXPECT_EQ(2u, compute32("mul.hi.u32", "%r1, 3", {UINT32_MAX}));
  EXPECT_EQ(uint64_t(-3), compute64("mul.wide.s32", "%r1, 3", {kMinus}));
  EXPECT_EQ(0x2fffffffdu, compute64("mul.wide.u32", "%r1, 3", {UINT32_MAX}));
  EXPECT_EQ(2u, compute64("mul.hi.u64", "%rd1, 3", {kMinus}));
  EXPECT_EQ(kMinus, compute64("mul.hi.s64", "%rd1, 3", {kMinus}));
  EXPECT_EQ(0xfffe0001u,
            compute32("mul.wide.u16", "%h1, %h2", {0xffff, 0xffff}));
  EXPECT_EQ(0x0001u, compute16("mul.lo.u16", "%h1, %h2", {0xffff, 0xffff}));
  EXPECT_EQ(22u, compute32("mad.lo.u32", "%r1, %r2, 2", {4, 5}));
  EXPECT_EQ(9u, compute64("mad.wide.s32", "%r1, %r2, %rd3", {kMinus, 1, 10}));
  EXPECT_EQ("line 7: mul has none of .lo, .hi, .wide",
            refuse("mul.s32 %r0, %r1, %r2;"));
  EXPECT_EQ("line 7: operand 3 of mad must be a register of 64 bits or a "
            "number",
            refuse("mad.wide.s32 %rd0, %r1, %r2, %r3;"));
}

TEST(ArithmeticTest, DividesTowardsZero) {
  EXPECT_EQ(uint32_t(-3), compute32("div.s32", "%r1, 2", {uint32_t(-7)}));
  EXPECT_EQ(uint32_t(-1), compute32("rem.s32", "%r1, 2", {uint32_t(-7)}));
  EXPECT_EQ(0x7ffffffcu, compute32("div.u32", "%r1, 2", {uint32_t(-7)}));
  // These trap on the host.
  EXPECT_EQ(0x80000000u, compute32("div.s32", "%r1, -1", {0x80000000}));
  EXPECT_EQ(0u, compute32("rem.s32", "%r1, -1", {0x80000000}));
  EXPECT_EQ(kMinus, compute64("div.u64", "%rd1, 0", {7}));
}

TEST(ArithmeticTest, ComparesWithTheSign) {
  EXPECT_EQ(uint32_t(-1), compute32("min.s32", "%r1, 1", {kMinus}));
  EXPECT_EQ(1u, compute32("min.u32", "%r1, 1", {kMinus}));
  EXPECT_EQ(kMinus, compute64("max.u64", "%rd1, 1", {kMinus}));
  EXPECT_EQ(0x0001ffffu,
            compute32("min.s16x2", "%r1, %r2", {0x00010002, 0x0003ffff}));
  EXPECT_EQ(5u, compute32("abs.s32", "%r1", {uint32_t(-5)}));
  EXPECT_EQ(uint32_t(-5), compute32("neg.s32", "%r1", {5}));
  EXPECT_EQ(13u, compute32("sad.s32", "%r1, %r2, 10", {kMinus, 2}));
  EXPECT_EQ("line 7: the emulator does not know abs of .u32",
            refuse("abs.u32 %r0, %r1;"));
}

TEST(ArithmeticTest, ShiftsOutAllBits) {
  EXPECT_EQ(0x80000000u, compute32("shl.b32", "%r1, 31", {3}));
  EXPECT_EQ(0u, compute32("shl.b32", "%r1, %r2", {3, 32}));
  EXPECT_EQ(0u, compute64("shl.b64", "%rd1, 64", {3}));
  EXPECT_EQ(1u, compute32("shr.u32", "%r1, 31", {0x80000000}));
  EXPECT_EQ(UINT32_MAX, compute32("shr.s32", "%r1, 99", {0x80000000}));
  EXPECT_EQ(0xffffu, compute16("shr.s16", "%h1, 15", {0x8000}));
  EXPECT_EQ(0x23456789u, compute32("shf.l.wrap.b32", "%r1, %r2, 36",
                                   {0x9abcdef0, 0x12345678}));
  EXPECT_EQ(0x12345678u, compute32("shf.r.clamp.b32", "%r1, %r2, 36",
                                   {0x9abcdef0, 0x12345678}));
}

TEST(ArithmeticTest, ComputesLogic) {
  EXPECT_EQ(0x0fu, compute32("and.b32", "%r1, -241", {0x0f}) & 0xff);
  EXPECT_EQ(0xffff0000u, compute32("not.b32", "%r1", {0xffff}));
  EXPECT_EQ(1u, compute32("cnot.b32", "%r1", {0}));
  EXPECT_EQ(0xf0u, compute16("xor.b16", "%h1, 255", {0x0f}));
  // (a & b) ^ c
  EXPECT_EQ(0b0110u, compute32("lop3.b32", "%r1, %r2, %r3, 0x6a",
                               {0b1100, 0b1010, 0b1110}));
  EXPECT_TRUE(test("not.pred", "%p1", {}));
  EXPECT_EQ(1u, compute("setp.eq.u32 %p1, 0, 0; setp.eq.u32 %p2, 0, 1;"
                        "and.pred %p0, %p1, !%p2; selp.b64 %rd0, 1, 0, %p0;"));
}

TEST(ArithmeticTest, CountsBits) {
  EXPECT_EQ(3u, compute32("popc.b64", "%rd1", {0x8000000000000011}));
  EXPECT_EQ(28u, compute32("clz.b32", "%r1", {0xf}));
  EXPECT_EQ(32u, compute32("clz.b32", "%r1", {0}));
  EXPECT_EQ(0x80000001u, compute32("brev.b32", "%r1", {0x80000001}));
  EXPECT_EQ(1u, compute64("brev.b64", "%rd1", {uint64_t(1) << 63}));
  EXPECT_EQ(3u, compute32("bfind.u32", "%r1", {0xf}));
  EXPECT_EQ(28u, compute32("bfind.shiftamt.u32", "%r1", {0xf}));
  EXPECT_EQ(2u, compute32("bfind.s32", "%r1", {uint32_t(-8)}));
  EXPECT_EQ(UINT32_MAX, compute32("bfind.s32", "%r1", {kMinus}));
}

TEST(ArithmeticTest, ExtractsAndInsertsFields) {
  EXPECT_EQ(0x5au, compute32("bfe.u32", "%r1, 8, 8", {0x12345a78}));
  EXPECT_EQ(0xffffff9au, compute32("bfe.s32", "%r1, 8, 8", {0x12349a78}));
  // The sign is the last existing bit.
  EXPECT_EQ(UINT32_MAX, compute32("bfe.s32", "%r1, 31, 8", {0x80000000}));
  EXPECT_EQ(0u, compute32("bfe.u32", "%r1, 0, 0", {kMinus}));
  EXPECT_EQ(0x1234ff78u,
            compute32("bfi.b32", "%r1, %r2, 8, 8", {0xff, 0x12345678}));
  EXPECT_EQ(uint64_t(1) << 63,
            compute64("bfi.b64", "%rd1, %rd2, 63, 9", {3, 0}));
  EXPECT_EQ(0xff0u, compute32("bmsk.clamp.b32", "4, 8"));
  EXPECT_EQ(0xffffff80u, compute32("szext.clamp.s32", "%r1, 8", {0x180}));
}

TEST(ArithmeticTest, PermutesBytes) {
  std::vector<uint64_t> bytes = {0x33221180, 0x77665544};
  EXPECT_EQ(0x44334477u, compute32("prmt.b32", "%r1, %r2, 0x4347", bytes));
  // Selects the sign of a byte.
  EXPECT_EQ(0x000000ffu, compute32("prmt.b32", "%r1, %r2, 0x9998", bytes));
  EXPECT_EQ(0x66554433u, compute32("prmt.b32.f4e", "%r1, %r2, 3", bytes));
  EXPECT_EQ(0x22222222u, compute32("prmt.b32.rc8", "%r1, %r2, 2", bytes));
  EXPECT_EQ(0x33223322u, compute32("prmt.b32.rc16", "%r1, %r2, 1", bytes));
}

TEST(ArithmeticTest, SumsProductsOfBytes) {
  EXPECT_EQ(10u - 1 + 4, compute32("dp4a.s32.u32", "%r1, %r2, 10",
                                   {0x000002ff, 0x00000201}));
  EXPECT_EQ(10u + 255 + 4, compute32("dp4a.u32.u32", "%r1, %r2, 10",
                                     {0x000002ff, 0x00000201}));
}

} // namespace
