//===- ControlTest.cpp - Branches and operations of a warp ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

/// A kernel of one warp. `%lane` is the lane, and `%result` of each lane is
/// stored.
std::string makeKernel(const std::string &body) {
  return R"(
.visible .entry lanes(.param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>, %lane, %result;
  .reg .b64 %rd<3>;
  mov.u32 %lane, %laneid;
  mov.b32 %result, 0;
  )" + body +
         R"(
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %lane, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.b32 [%rd1], %result;
  ret;
})";
}

/// The results of `threads` lanes, or a fault.
std::vector<uint32_t> run(const std::string &body, std::string *fault = nullptr,
                          unsigned threads = 32) {
  Machine machine;
  uint64_t out = machine.allocate(threads * 4);
  std::string happened = getFault([&] {
    launch(machine, makeKernel(body), makeShape(1, threads), {out});
    machine.synchronize();
  });
  if (fault)
    *fault = happened;
  else
    EXPECT_EQ("", happened);
  std::vector<uint32_t> result;
  for (unsigned i = 0; i < threads; ++i)
    result.push_back(read<uint32_t>(out + i * 4));
  return result;
}

TEST(ControlTest, ShufflesLanes) {
  auto butterfly = run("shfl.sync.bfly.b32 %result, %lane, 5, 31, -1;");
  auto first = run("shfl.sync.idx.b32 %result, %lane, 0, 31, -1;");
  auto down = run("shfl.sync.down.b32 %result, %lane, 3, 31, -1;");
  auto up = run("shfl.sync.up.b32 %result, %lane, 3, 0, -1;");
  // Segments of eight lanes: 31 - 7 in bits 8 to 12.
  auto segments = run("shfl.sync.idx.b32 %result, %lane, 2, 0x181f, -1;");
  auto inRange = run("shfl.sync.down.b32 %r1|%p1, %lane, 3, 31, -1;\n"
                     "selp.b32 %result, 1, 0, %p1;");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(i ^ 5, butterfly[i]);
    EXPECT_EQ(0U, first[i]);
    EXPECT_EQ(i + 3 < 32 ? i + 3 : i, down[i]);
    EXPECT_EQ(i >= 3 ? i - 3 : i, up[i]);
    EXPECT_EQ(i / 8 * 8 + 2, segments[i]);
    EXPECT_EQ(i + 3 < 32, inRange[i]);
  }
}

TEST(ControlTest, RefusesLanesOutsideOfTheMask) {
  std::string fault;
  // The mask contains the upper half, which is at another instruction.
  (void)run("setp.ge.u32 %p1, %lane, 16;\n"
            "@%p1 bra $after;\n"
            "shfl.sync.bfly.b32 %result, %lane, 16, 31, 0xffff;\n"
            "$after:",
            &fault);
  EXPECT_NE(std::string::npos,
            fault.find("lane 0 reads lane 16, which is not in the mask"))
      << fault;
  (void)run("shfl.sync.bfly.b32 %result, %lane, 1, 31, 0xffff;", &fault);
  EXPECT_NE(std::string::npos, fault.find("lane 16 is not in its own mask"))
      << fault;
  (void)run("mov.b32 %r1, -1;\n"
            "setp.eq.u32 %p1, %lane, 3;\n"
            "selp.b32 %r1, 0xff, -1, %p1;\n"
            "bar.warp.sync %r1;",
            &fault);
  EXPECT_NE(std::string::npos, fault.find("lanes have different masks"))
      << fault;
}

TEST(ControlTest, WaitsForLanesThatHaveNotEnded) {
  EXPECT_EQ(7U, run("bar.warp.sync -1;\nmov.b32 %result, 7;", nullptr, 16)[15]);
  const std::string ends = "setp.ge.u32 %p1, %lane, 16;\n@%p1 ret;\n";
  EXPECT_EQ(1U, run(ends + "shfl.sync.bfly.b32 %result, %lane, 1, 31, -1;")[0]);
  std::string fault;
  (void)run(ends + "shfl.sync.bfly.b32 %result, %lane, 16, 31, -1;", &fault);
  EXPECT_NE(std::string::npos,
            fault.find("lane 0 reads lane 16, which is not in the mask"))
      << fault;
}

TEST(ControlTest, BranchesThroughTables) {
  const std::string text = "rem.u32 %r1, %lane, LIMIT;\n"
                           "$table: .branchtargets $a, $b, $a;\n"
                           "brx.idx %r1, $table;\n"
                           "$a: mov.b32 %result, 10; bra $end;\n"
                           "$b: mov.b32 %result, 20;\n"
                           "$end:";
  auto replace = [&](const char *limit) {
    std::string result = text;
    return result.replace(result.find("LIMIT"), 5, limit);
  };
  auto results = run(replace("3"));
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(i % 3 == 1 ? 20U : 10U, results[i]);
  std::string fault;
  (void)run(replace("4"), &fault);
  EXPECT_NE(std::string::npos, fault.find("target 3 of 3")) << fault;
}

TEST(ControlTest, CountsLanes) {
  auto ballot = run("setp.lt.u32 %p1, %lane, 4;\n"
                    "vote.sync.ballot.b32 %result, %p1, -1;");
  auto any = run("setp.lt.u32 %p1, %lane, 4;\n"
                 "vote.sync.any.pred %p2, %p1, -1;\n"
                 "selp.b32 %result, 1, 0, %p2;");
  auto all = run("setp.lt.u32 %p1, %lane, 4;\n"
                 "vote.sync.all.pred %p2, !%p1, -1;\n"
                 "selp.b32 %result, 1, 0, %p2;");
  auto sum = run("redux.sync.add.s32 %result, %lane, -1;");
  auto most = run("sub.s32 %r1, %lane, 40;\n"
                  "redux.sync.max.s32 %result, %r1, -1;");
  auto elected = run("elect.sync _|%p1, -1;\n"
                     "selp.b32 %result, 1, 0, %p1;");
  auto matched = run("and.b32 %r1, %lane, 7;\n"
                     "match.any.sync.b32 %result, %r1, -1;");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(15U, ballot[i]);
    EXPECT_EQ(1U, any[i]);
    EXPECT_EQ(0U, all[i]);
    EXPECT_EQ(496U, sum[i]);
    EXPECT_EQ(uint32_t(-9), most[i]);
    EXPECT_EQ(i == 0, elected[i]);
    EXPECT_EQ(0x01010101U << (i % 8), matched[i]);
  }
}

TEST(ControlTest, Traps) {
  std::string fault;
  (void)run("trap;", &fault);
  EXPECT_NE(std::string::npos, fault.find("(trap): the kernel executed trap"))
      << fault;
}

TEST(ControlTest, RefusesUnknownForms) {
  for (auto [body, message] :
       {std::pair("shfl.sync.left.b32 %result, %lane, 1, 31, -1;",
                  "shfl.sync must be .up, .down, .bfly or .idx, and .b32"),
        std::pair("vote.sync.some.pred %p1, %p2, -1;",
                  "vote.sync must be .all.pred, .any.pred, .uni.pred or "
                  ".ballot.b32"),
        std::pair("redux.sync.and.u32 %result, %lane, -1;",
                  "redux.sync must be .add, .min or .max of .u32 or .s32, or "
                  ".and, .or or .xor of .b32"),
        std::pair("here: brx.idx %r1, here;", "brx.idx has no .branchtargets"),
        std::pair("setmaxnreg.inc.sync.aligned.u32 100;",
                  "setmaxnreg of 100 registers, expected a multiple of 8 from "
                  "24 to 256"),
        std::pair("griddepcontrol.go;", "griddepcontrol must be .wait or "
                                        ".launch_dependents")}) {
    try {
      (void)run(body);
      FAIL() << body;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string::npos, std::string(error.what()).find(message))
          << error.what();
    }
  }
}

} // namespace
