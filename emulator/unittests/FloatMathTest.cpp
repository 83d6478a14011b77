//===- FloatMathTest.cpp - Floating-point arithmetic ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compute.h"
#include "machine/Formats.h"

#include <cmath>

using namespace fuse::emulator;

namespace {

constexpr uint32_t kSubnormal = 1, kNanBits = 0x7fffffff;

TEST(FloatMathTest, ComputesSingles) {
  std::vector<uint64_t> inputs = {bits(3.0f), bits(0.1f), bits(-0.5f)};
  EXPECT_EQ(bits(3.0f + 0.1f), compute32("add.rn.f32", "%r1, %r2", inputs));
  EXPECT_EQ(bits(3.0f - 0.1f), compute32("sub.f32", "%r1, %r2", inputs));
  EXPECT_EQ(bits(3.0f * 0.1f), compute32("mul.rn.f32", "%r1, %r2", inputs));
  EXPECT_EQ(bits(3.0f / 0.1f), compute32("div.rn.f32", "%r1, %r2", inputs));
  EXPECT_EQ(bits(std::fma(3.0f, 0.1f, -0.5f)),
            compute32("fma.rn.f32", "%r1, %r2, %r3", inputs));
  EXPECT_EQ(bits(1.0f / 3), compute32("rcp.rn.f32", "%r1", inputs));
  EXPECT_EQ(bits(std::sqrt(3.0f)), compute32("sqrt.rn.f32", "%r1", inputs));
  EXPECT_EQ(bits(3.0f), compute32("neg.f32", "0fC0400000"));
  EXPECT_EQ(bits(0.5f), compute32("abs.f32", "%r3", inputs));
  EXPECT_EQ(bits(-3.0f), compute32("copysign.f32", "%r3, %r1", inputs));
  EXPECT_EQ(kNanBits, compute32("sub.rn.f32", "%r1, %r1", {bits(INFINITY)}));
}

TEST(FloatMathTest, RoundsInAllModes) {
  std::vector<uint64_t> inputs = {bits(1.0f), bits(std::ldexp(1.0f, -30))};
  EXPECT_EQ(0x3f800000u, compute32("add.rn.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x3f800001u, compute32("add.rp.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x3f7fffffu, compute32("sub.rz.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x3eaaaaaau, compute32("rcp.rm.f32", "%r1", {bits(3.0f)}));
  EXPECT_EQ(0x3eaaaaabu, compute32("rcp.rp.f32", "%r1", {bits(3.0f)}));
  EXPECT_EQ("line 7: the emulator does not know add of .f64",
            refuse("add.rz.f64 %rd0, %rd1, %rd2;"));
}

TEST(FloatMathTest, FlushesAndClamps) {
  std::vector<uint64_t> inputs = {kSubnormal, bits(0.0f)};
  EXPECT_EQ(kSubnormal, compute32("add.rn.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0u, compute32("add.rn.ftz.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x80000000u, compute32("mul.rn.ftz.f32", "%r1, %r2",
                                   {bits(std::ldexp(-1.0f, -100)),
                                    bits(std::ldexp(1.0f, -40))}));
  EXPECT_EQ(bits(1.0f), compute32("add.sat.f32", "%r1, %r1", {bits(3.0f)}));
  EXPECT_EQ(0u, compute32("add.sat.f32", "%r1, %r1", {bits(-3.0f)}));
  EXPECT_EQ(0u, compute32("add.sat.f32", "%r1, %r1", {bits(NAN)}));
}

TEST(FloatMathTest, ComputesHalves) {
  EXPECT_EQ(0x4200u, compute16("add.rn.f16", "%h1, %h2", {0x3c00, 0x4000}));
  EXPECT_EQ(0x4040u, compute16("add.rn.bf16", "%h1, %h2", {0x3f80, 0x4000}));
  // 3 * 5 + 1 and 2 * 2 - 4.
  EXPECT_EQ(0x00004c00u, compute32("fma.rn.f16x2", "%r1, %r2, %r3",
                                   {0x40004200, 0x40004500, 0xc4003c00}));
  EXPECT_EQ(0x40804110u,
            compute32("mul.rn.bf16x2", "%r1, %r2", {0x40004040, 0x40004040}));
  EXPECT_EQ(0u,
            compute16("fma.rn.relu.f16", "%h1, %h1, %h2", {0x3c00, 0xc400}));
  EXPECT_EQ(0xc200u,
            compute16("fma.rn.f16", "%h1, %h1, %h2", {0x3c00, 0xc400}));
  EXPECT_EQ(0x3c00bc00u, compute32("neg.f16x2", "%r1", {0xbc003c00}));
  // Rounded once. Rounding to double first would lose the deciding bit.
  EXPECT_EQ(0x3f81u, compute16("fma.rn.bf16", "%h1, %h2, %h3",
                               {0x1f80, 0x1f80, 0x3f81}));
  EXPECT_EQ("line 7: the emulator does not know add of .f16",
            refuse("add.rz.f16 %h0, %h1, %h2;"));
}

TEST(FloatMathTest, ComputesDoubles) {
  std::vector<uint64_t> inputs = {bits(3.0), bits(0.1)};
  EXPECT_EQ(bits(3.0 * 0.1), compute64("mul.rn.f64", "%rd1, %rd2", inputs));
  EXPECT_EQ(bits(3.0 / 0.1), compute64("div.rn.f64", "%rd1, %rd2", inputs));
  EXPECT_EQ(bits(0.1), compute64("min.f64", "%rd1, %rd2", inputs));
  EXPECT_EQ(bits(-3.0), compute64("neg.f64", "%rd1", inputs));
}

TEST(FloatMathTest, ChoosesNumbers) {
  std::vector<uint64_t> inputs = {bits(2.0f), bits(NAN)};
  EXPECT_EQ(bits(2.0f), compute32("max.f32", "%r1, %r2", inputs));
  EXPECT_EQ(bits(2.0f), compute32("min.f32", "%r2, %r1", inputs));
  EXPECT_EQ(kNanBits, compute32("max.NaN.f32", "%r1, %r2", inputs));
  EXPECT_EQ(kNanBits, compute32("max.f32", "%r2, %r2", inputs));
  EXPECT_EQ(bits(-0.0f),
            compute32("min.f32", "0f00000000, %r1", {bits(-0.0f)}));
  EXPECT_EQ(bits(0.0f), compute32("max.f32", "%r1, 0f00000000", {bits(-0.0f)}));
  EXPECT_EQ(bits(-1.0f),
            compute32("max.f32", "%r1, %r2", {bits(-1.0f), bits(-2.0f)}));
  EXPECT_EQ(0x40003c00u,
            compute32("max.bf16x2", "%r1, %r2", {0x40003c00, 0x3c00bc00}));
  EXPECT_EQ(bits(-1.0f), compute32("min.xorsign.abs.f32", "%r1, %r2",
                                   {bits(-1.0f), bits(2.0f)}));
}

/// Approximate functions are as accurate as a float allows.
TEST(FloatMathTest, Approximates) {
  struct Case {
    const char *opcode;
    float input, expected;
  };
  for (Case it : {Case{"ex2.approx.ftz.f32", 0.5f, 1.41421356f},
                  Case{"lg2.approx.f32", 8.0f, 3.0f},
                  Case{"rcp.approx.ftz.f32", 4.0f, 0.25f},
                  Case{"rcp.approx.f32", -0.0f, -INFINITY},
                  Case{"rsqrt.approx.f32", 4.0f, 0.5f},
                  Case{"sqrt.approx.f32", 2.0f, 1.41421356f},
                  Case{"sin.approx.f32", 1.0f, 0.84147098f},
                  Case{"cos.approx.f32", 0.0f, 1.0f},
                  Case{"tanh.approx.f32", 1.0f, 0.76159416f},
                  Case{"ex2.approx.ftz.f32", -130.0f, 0.0f},
                  Case{"ex2.approx.f32", -130.0f, std::ldexp(1.0f, -130)}})
    EXPECT_EQ(bits(it.expected), compute32(it.opcode, "%r1", {bits(it.input)}))
        << it.opcode;
  EXPECT_EQ(0x3f80u, compute16("ex2.approx.ftz.bf16", "%h1", {0}));
  EXPECT_EQ(0x3c003c00u, compute32("tanh.approx.f16x2", "%r1", {0x7c007c00}));
  EXPECT_EQ(bits(1.5f),
            compute32("div.full.f32", "%r1, %r2", {bits(3.0f), bits(2.0f)}));
  EXPECT_EQ("line 7: sin has no .approx", refuse("sin.f32 %r0, %r1;"));
  EXPECT_EQ("line 7: the emulator does not know sin of .f16",
            refuse("sin.approx.f16 %h0, %h1;"));
}

TEST(FloatMathTest, TestsProperties) {
  EXPECT_TRUE(test("testp.subnormal.f32", "%r1", {kSubnormal}));
  EXPECT_FALSE(test("testp.normal.f32", "%r1", {kSubnormal}));
  EXPECT_TRUE(test("testp.notanumber.f64", "%rd1", {bits(double(NAN))}));
  EXPECT_FALSE(test("testp.finite.f32", "%r1", {bits(INFINITY)}));
}

} // namespace
