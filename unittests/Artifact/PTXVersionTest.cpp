//===- PTXVersionTest.cpp - Tests of PTX versions -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/DeviceCode.h"
#include "gtest/gtest.h"

using namespace fuse;

static int64_t getMinimum(const std::string &target, const std::string &body) {
  return getMinimalPTXVersion(".version 9.0\n.target " + target +
                                  "\n.visible .entry f(.param .u64 x)\n{\n" +
                                  body + "\nret;\n}\n",
                              90);
}

TEST(PTXVersionTest, ReadsTheVersion) {
  auto version = getPTXVersion("// a comment\n.version 8.3\n.target sm_90\n");
  ASSERT_TRUE(bool(version));
  EXPECT_EQ(*version, 83);
  for (const char *bad : {"", ".version\n", ".version 8\n", ".version a.b\n"}) {
    auto none = getPTXVersion(bad);
    EXPECT_FALSE(bool(none)) << bad;
    llvm::consumeError(none.takeError());
  }
}

// The newest of the target, the instructions and their qualifiers decides.
TEST(PTXVersionTest, FindsWhatFeaturesNeed) {
  EXPECT_EQ(getMinimum("sm_80", "ld.param.u64 %rd1, [x];"), 70);
  EXPECT_EQ(getMinimum("sm_90", "add.s32 %r1, %r2, %r3;"), 78);
  EXPECT_EQ(getMinimum("sm_90a", "add.s32 %r1, %r2, %r3;"), 80);
  EXPECT_EQ(
      getMinimum("sm_80", "st.global.L2::cache_hint.f32 [%rd1], %f1, %rd2;"),
      74);
  EXPECT_EQ(getMinimum("sm_90", "@%p1 elect.sync %r1|%p2, -1;"), 80);
  EXPECT_EQ(getMinimum("sm_89", "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;"),
            81);
  EXPECT_EQ(getMinimum("sm_89",
                       "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                       "{%f1}, {%r1}, {%r2}, {%f1};"),
            84);
  EXPECT_EQ(getMinimum("sm_89", "add.f32 %f1, %f2, %f3;"), 78);
  EXPECT_EQ(getMinimum("sm_80", "LOOP:\nbra LOOP; // wgmma"), 70);
}

// An unknown instruction may require any version.
TEST(PTXVersionTest, KeepsTheVersionOfWhatItDoesNotKnow) {
  EXPECT_EQ(getMinimum("sm_90a", "newest.instruction.f32 %f1;"), 90);
  EXPECT_EQ(getMinimum("sm_200", "add.f32 %f1, %f2, %f3;"), 90);
  EXPECT_EQ(getMinimalPTXVersion("", 80), 80);
}
