//===- ConversionsTest.cpp - cvt ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compute.h"

#include <cmath>

using namespace fuse::emulator;

namespace {

TEST(ConversionsTest, WidensWithTheSign) {
  EXPECT_EQ(uint64_t(-2), compute64("cvt.s64.s32", "%r1", {0xfffffffe}));
  EXPECT_EQ(0xfffffffeu, compute64("cvt.u64.u32", "%r1", {0xfffffffe}));
  EXPECT_EQ(0xffffff80u, compute32("cvt.s32.s8", "%r1", {0x180}));
  EXPECT_EQ(0x80u, compute32("cvt.u32.u8", "%r1", {0x180}));
  EXPECT_EQ(0x5678u, compute32("cvt.u32.u16", "%h1", {0x12345678}));
  // A byte is sign-extended to the width of its register only.
  EXPECT_EQ(0xff80u,
            compute("cvt.s8.s32 %h0, %r1; cvt.u64.u16 %rd0, %h0;", {0x80}));
}

TEST(ConversionsTest, ClampsIntegers) {
  EXPECT_EQ(127u, compute16("cvt.sat.s8.s32", "%r1", {300}));
  EXPECT_EQ(44u, compute16("cvt.s8.s32", "%r1", {300}));
  EXPECT_EQ(0u, compute16("cvt.sat.u8.s32", "%r1", {uint32_t(-5)}));
  EXPECT_EQ(0xff80u, compute16("cvt.sat.s8.s64", "%rd1", {uint64_t(-500)}));
  EXPECT_EQ(0x7fffffffu, compute32("cvt.sat.s32.u32", "%r1", {UINT32_MAX}));
}

TEST(ConversionsTest, RoundsToIntegers) {
  struct Case {
    const char *rounding;
    float input;
    int expected;
  };
  for (Case it : {Case{"rni", 2.5f, 2}, Case{"rni", 3.5f, 4},
                  Case{"rzi", -2.7f, -2}, Case{"rmi", -2.1f, -3},
                  Case{"rpi", 2.1f, 3}, Case{"rzi", 3e9f, INT32_MAX},
                  Case{"rzi", -INFINITY, INT32_MIN}, Case{"rzi", NAN, 0}}) {
    std::string rounding = it.rounding;
    EXPECT_EQ(uint32_t(it.expected), compute32("cvt." + rounding + ".s32.f32",
                                               "%r1", {bits(it.input)}))
        << rounding << it.input;
  }
  EXPECT_EQ(bits(-3.0f), compute32("cvt.rmi.f32.f32", "%r1", {bits(-2.1f)}));
  EXPECT_EQ(0u, compute32("cvt.rzi.u32.f32", "%r1", {bits(-7.0f)}));
  EXPECT_EQ(UINT64_MAX, compute64("cvt.rzi.u64.f64", "%rd1", {bits(1e30)}));
  EXPECT_EQ(uint64_t(1) << 63,
            compute64("cvt.rzi.s64.f32", "%r1", {bits(-1e30f)}));
  EXPECT_EQ(0xff80u, compute16("cvt.rni.s8.f32", "%r1", {bits(-300.0f)}));
  EXPECT_EQ(7u, compute32("cvt.rzi.u32.bf16", "%h1", {0x40f0}));
  EXPECT_EQ("line 7: the emulator knows no cvt of .f32 to .s32 without one of "
            ".rni, .rzi, .rmi, .rpi alone",
            refuse("cvt.rn.s32.f32 %r0, %r1;"));
}

TEST(ConversionsTest, RoundsFromIntegers) {
  EXPECT_EQ(bits(-1.0f), compute32("cvt.rn.f32.s32", "%r1", {UINT32_MAX}));
  EXPECT_EQ(bits(4294967296.0f),
            compute32("cvt.rn.f32.u32", "%r1", {UINT32_MAX}));
  EXPECT_EQ(0x4f7fffffu, compute32("cvt.rz.f32.u32", "%r1", {UINT32_MAX}));
  // The last of 64 bits determines the rounding.
  uint64_t middle = (uint64_t(1) << 60) + (uint64_t(1) << 36);
  EXPECT_EQ(0x5d800000u, compute32("cvt.rn.f32.u64", "%rd1", {middle}));
  EXPECT_EQ(0x5d800001u, compute32("cvt.rn.f32.u64", "%rd1", {middle + 1}));
  EXPECT_EQ(bits(-2.0), compute64("cvt.rn.f64.s32", "%r1", {uint32_t(-2)}));
  EXPECT_EQ(0x7c00u, compute16("cvt.rn.f16.s32", "%r1", {70000}));
  EXPECT_EQ("line 7: the emulator knows no cvt of .s32 to .f32 without one of "
            ".rn, .rz, .rm, .rp alone",
            refuse("cvt.f32.s32 %r0, %r1;"));
}

TEST(ConversionsTest, RoundsFloats) {
  EXPECT_EQ(0x3f80u, compute16("cvt.rn.bf16.f32", "%r1", {0x3f808000}));
  EXPECT_EQ(0x3f81u, compute16("cvt.rn.bf16.f32", "%r1", {0x3f808001}));
  EXPECT_EQ(0x3f80u, compute16("cvt.rz.bf16.f32", "%r1", {0x3f80ffff}));
  EXPECT_EQ(0x0000u, compute16("cvt.rn.relu.f16.f32", "%r1", {bits(-1.0f)}));
  EXPECT_EQ(0x7fffu, compute16("cvt.rn.relu.f16.f32", "%r1", {bits(NAN)}));
  EXPECT_EQ(bits(0.5f), compute32("cvt.f32.f16", "%h1", {0x3800}));
  EXPECT_EQ(bits(0.5f), compute32("cvt.f32.bf16", "%h1", {0x3f00}));
  EXPECT_EQ(bits(0.5), compute64("cvt.f64.f32", "%r1", {bits(0.5f)}));
  EXPECT_EQ(bits(0.1f), compute32("cvt.rn.f32.f64", "%rd1", {bits(0.1)}));
  EXPECT_EQ(bits(1.0f), compute32("cvt.sat.f32.f32", "%r1", {bits(7.0f)}));
  EXPECT_EQ(0x3f802000u, compute32("cvt.rna.tf32.f32", "%r1", {0x3f801000}));
  EXPECT_EQ(0u, compute32("cvt.ftz.f32.f32", "%r1", {1}));
  EXPECT_EQ("line 7: the emulator knows no cvt of .f32 to .f16 without a "
            "rounding",
            refuse("cvt.f16.f32 %h0, %r1;"));
}

TEST(ConversionsTest, PacksTwo) {
  std::vector<uint64_t> inputs = {bits(1.0f), bits(2.0f)};
  // The first operand becomes the upper half.
  EXPECT_EQ(0x3c004000u, compute32("cvt.rn.f16x2.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x3f804000u, compute32("cvt.rn.bf16x2.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x3840u,
            compute16("cvt.rn.satfinite.e4m3x2.f32", "%r1, %r2", inputs));
  EXPECT_EQ(0x7efeu, compute16("cvt.rn.satfinite.e4m3x2.f32", "%r1, %r2",
                               {bits(1e9f), bits(-INFINITY)}));
  EXPECT_EQ(0x7f00u, compute16("cvt.rn.satfinite.relu.e4m3x2.f32", "%r1, %r2",
                               {bits(NAN), bits(-1.0f)}));
  EXPECT_EQ(0x7b40u, compute16("cvt.rn.satfinite.e5m2x2.f32", "%r1, %r2",
                               {bits(1e9f), bits(2.0f)}));
  EXPECT_EQ(0x3c004000u, compute32("cvt.rn.f16x2.e4m3x2", "%h1", {0x3840}));
  EXPECT_EQ(0x3c007fffu, compute32("cvt.rn.f16x2.e5m2x2", "%h1", {0x3c7e}));
  EXPECT_EQ(0x3840u,
            compute16("cvt.rn.satfinite.e4m3x2.f16x2", "%r1", {0x3c004000}));
  EXPECT_EQ("line 7: the emulator knows no cvt of .f32 to .e4m3x2 without "
            ".rn.satfinite",
            refuse("cvt.rn.e4m3x2.f32 %h0, %r1, %r2;"));
}

} // namespace
