//===- SelectCompareMoveTest.cpp - Comparisons, selections and moves ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compute.h"

#include <cmath>

using namespace fuse::emulator;

namespace {

TEST(SelectCompareMoveTest, ComparesIntegers) {
  EXPECT_TRUE(test("setp.lt.s32", "%r1, 0", {UINT32_MAX}));
  EXPECT_FALSE(test("setp.lt.u32", "%r1, 0", {UINT32_MAX}));
  EXPECT_TRUE(test("setp.hs.u32", "%r1, 7", {7}));
  EXPECT_FALSE(test("setp.ne.b64", "%rd1, -1", {UINT64_MAX}));
  EXPECT_TRUE(test("setp.gt.s16", "%h1, -3", {0xfffe}));
  EXPECT_EQ("line 7: setp has no comparison .ltu of .s32",
            refuse("setp.ltu.s32 %p0, %r1, %r2;"));
  EXPECT_EQ("line 7: setp has no comparison .s32 of .s32",
            refuse("setp.s32 %p0, %r1, %r2;"));
}

TEST(SelectCompareMoveTest, ComparesUnorderedFloats) {
  std::vector<uint64_t> numbers = {bits(1.0f), bits(2.0f)};
  std::vector<uint64_t> unordered = {bits(1.0f), bits(NAN)};
  struct Case {
    const char *name;
    bool ofNumbers, ofUnordered;
  };
  for (Case it : {Case{"lt", true, false}, Case{"ltu", true, true},
                  Case{"ge", false, false}, Case{"geu", false, true},
                  Case{"eq", false, false}, Case{"equ", false, true},
                  Case{"ne", true, false}, Case{"neu", true, true},
                  Case{"num", true, false}, Case{"nan", false, true}}) {
    std::string opcode = std::string("setp.") + it.name + ".f32";
    EXPECT_EQ(it.ofNumbers, test(opcode, "%r1, %r2", numbers)) << opcode;
    EXPECT_EQ(it.ofUnordered, test(opcode, "%r1, %r2", unordered)) << opcode;
  }
  EXPECT_FALSE(test("setp.eq.f32", "%r1, 0f00000000", {1}));
  EXPECT_TRUE(test("setp.eq.ftz.f32", "%r1, 0f00000000", {1}));
  EXPECT_TRUE(test("setp.lt.f64", "%rd1, 0d3FF0000000000000", {bits(0.5)}));
  EXPECT_TRUE(test("setp.gt.bf16", "%h1, %h2", {0x3f81, 0x3f80}));
  EXPECT_FALSE(test("setp.gt.f16", "%h1, %h2", {0x7e00, 0x3c00}));
}

TEST(SelectCompareMoveTest, CombinesWithPredicates) {
  // Both results, combined with a predicate.
  const std::string text = "setp.eq.u32 %p1, %r1, 1;"
                           "setp.lt.OP.u32 %p2|%p3, %r2, 5, !%p1;"
                           "selp.b64 %rd1, 1, 0, %p2; selp.b64 %rd2, 2, 0, %p3;"
                           "or.b64 %rd0, %rd1, %rd2;";
  auto run = [&](std::string how, uint64_t with, uint64_t value) {
    std::string body = text;
    body.replace(body.find("OP"), 2, how);
    return compute(body, {1 - with, value});
  };
  EXPECT_EQ(1u, run("and", 1, 3));
  EXPECT_EQ(2u, run("and", 1, 7));
  EXPECT_EQ(0u, run("and", 0, 3));
  EXPECT_EQ(3u, run("or", 1, 3));
  EXPECT_EQ(1u, run("or", 0, 3));
  EXPECT_EQ(2u, run("xor", 1, 3));
  EXPECT_EQ(1u, run("xor", 0, 3));
  // Each half has a result.
  EXPECT_EQ(2u, compute("setp.lt.f16x2 %p2|%p3, %r1, %r2;"
                        "selp.b64 %rd1, 1, 0, %p2; selp.b64 %rd2, 2, 0, %p3;"
                        "or.b64 %rd0, %rd1, %rd2;",
                        {0x3c004000, 0x40003c00}));
}

TEST(SelectCompareMoveTest, SetsValues) {
  EXPECT_EQ(UINT32_MAX, compute32("set.lt.u32.s32", "%r1, 0", {UINT32_MAX}));
  EXPECT_EQ(0u, compute32("set.lt.u32.u32", "%r1, 0", {UINT32_MAX}));
  EXPECT_EQ(bits(1.0f), compute32("set.eq.f32.u32", "%r1, 3", {3}));
  EXPECT_EQ("line 7: the emulator does not know set of .b64",
            refuse("set.eq.b64.u32 %rd0, %r1, 3;"));
}

TEST(SelectCompareMoveTest, Selects) {
  const std::string text = "setp.eq.u32 %p1, %r1, 1; selp.b64 %rd0, %rd2, 9,";
  EXPECT_EQ(7u, compute(text + "%p1;", {1, 7}));
  EXPECT_EQ(9u, compute(text + "!%p1;", {1, 7}));
  EXPECT_EQ(5u, compute32("slct.b32.s32", "5, 6, %r1", {0}));
  EXPECT_EQ(6u, compute32("slct.b32.s32", "5, 6, %r1", {UINT32_MAX}));
  EXPECT_EQ(5u, compute32("slct.b32.f32", "5, 6, %r1", {bits(-0.0f)}));
  EXPECT_EQ(6u, compute32("slct.b32.f32", "5, 6, %r1", {bits(NAN)}));
}

TEST(SelectCompareMoveTest, MovesVectors) {
  EXPECT_EQ(0x56781234u, compute32("mov.b32", "{%h1, %h2}", {0x1234, 0x5678}));
  EXPECT_EQ(0x5678u, compute("mov.b32 {_, %h0}, %r1; cvt.u64.u16 %rd0, %h0;",
                             {0x56781234}));
  EXPECT_EQ(0x200000001u, compute64("mov.b64", "{%r1, %r2}", {1, 2}));
  EXPECT_EQ(0x4000300020001u,
            compute64("mov.b64", "{%h1, %h2, %h3, %h4}", {1, 2, 3, 4}));
  EXPECT_EQ("line 7: mov of a vector with other parts than registers of 16 "
            "bits",
            refuse("mov.b32 %r0, {%r1, %r2};"));
  EXPECT_EQ("line 7: mov of a vector of 3",
            refuse("mov.b64 %rd0, {%h1, %h2, %h3};"));
  // A constant is truncated to the width of the result.
  EXPECT_EQ(UINT32_MAX,
            compute("mov.b32 %r0, -1; mov.b64 %rd0, {%r0, %r1};", {0}));
}

TEST(SelectCompareMoveTest, ReadsSpecialRegisters) {
  Machine machine;
  uint64_t out = machine.allocate(16 * 4 * 8);
  LaunchShape shape;
  shape.grid = {4, 2, 1};
  shape.cluster = {2, 1, 1};
  shape.block = {2, 2, 1};
  launch(machine, R"(.visible .entry k(.param .u64 out) {
  .reg .b32 %r<12>; .reg .b64 %rd<4>;
  mov.u32 %r0, %tid.y; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  mov.u32 %r4, %ctaid.y; mov.u32 %r5, %nctaid.x; mov.u32 %r6, %ctaid.x;
  mad.lo.u32 %r7, %r4, %r5, %r6;
  mad.lo.u32 %r8, %r7, 4, %r3;
  ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd1, %r8, 8;
  add.u64 %rd0, %rd0, %rd1;
  mov.u32 %r9, %cluster_ctarank;
  mov.u32 %r10, %clusterid.x;
  mov.u32 %r11, %lanemask_lt;
  mul.lo.u32 %r9, %r9, 1000;
  mad.lo.u32 %r9, %r10, 100, %r9;
  st.global.v2.u32 [%rd0], {%r9, %r11};
})",
         shape, {out});
  machine.synchronize();
  for (unsigned block = 0; block < 8; ++block)
    for (unsigned thread = 0; thread < 4; ++thread) {
      uint64_t at = out + (block * 4 + thread) * 8;
      EXPECT_EQ(block % 4 % 2 * 1000 + block % 4 / 2 * 100, read<uint32_t>(at));
      EXPECT_EQ((1u << thread) - 1, read<uint32_t>(at + 4));
    }
}

} // namespace
