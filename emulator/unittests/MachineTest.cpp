//===- MachineTest.cpp - The scheduler of blocks and threads --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Each thread stores its index.
constexpr const char *kIota = R"(
.visible .entry iota(.param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.b32 [%rd1], %r4;
  ret;
})";

TEST(MachineTest, RunsMoreBlocksThanFit) {
  // Two multiprocessors with 64 threads each hold four of the 16 blocks.
  Limits limits;
  limits.multiprocessors = 2;
  limits.threadsPerMultiprocessor = 64;
  for (uint64_t seed : {0, 1, 2, 3}) {
    Machine machine(limits, seed);
    uint64_t out = machine.allocate(16 * 32 * 4);
    launch(machine, kIota, makeShape(16, 32), {out});
    machine.synchronize();
    for (uint32_t i = 0; i < 16 * 32; ++i)
      ASSERT_EQ(i, read<uint32_t>(out + i * 4));
  }
}

TEST(MachineTest, LocatesInvalidAddresses) {
  Machine machine;
  uint64_t out = machine.allocate(33 * 4);
  launch(machine, kIota, makeShape(2, 32), {out});
  std::string fault = getFault([&] { machine.synchronize(); });
  EXPECT_NE(std::string::npos,
            fault.find("kernel iota, block (1, 0, 0), thread (1, 0, 0), "
                       "line 16 (st.global.b32): 4 bytes at 0x"))
      << fault;
  EXPECT_NE(std::string::npos, fault.find(" are not in an allocation"))
      << fault;
  // As on a device, the fault is sticky.
  EXPECT_EQ(fault, getFault([&] { machine.synchronize(); }));
  EXPECT_EQ(fault,
            getFault([&] { launch(machine, kIota, makeShape(1, 32), {out}); }));
}

TEST(MachineTest, RefusesImpossibleLaunches) {
  Limits limits;
  limits.multiprocessors = 2;
  Machine machine(limits);
  uint64_t out = machine.allocate(1024);
  auto refuse = [&](LaunchShape shape) {
    return getFault([&] { launch(machine, kIota, shape, {out}); });
  };
  EXPECT_EQ("kernel iota: 2048 threads in a block, expected 1 to 1024",
            refuse(makeShape(1, 2048)));
  EXPECT_EQ("kernel iota: a grid of (3, 1, 1) blocks cannot be divided into "
            "clusters of (2, 1, 1)",
            refuse({{3, 1, 1}, {32, 1, 1}, {2, 1, 1}}));
  EXPECT_EQ("kernel iota: 262144 bytes of shared memory, expected 232448 at "
            "most",
            refuse({{1, 1, 1}, {32, 1, 1}, {1, 1, 1}, 262144}));
  // One such block fills a multiprocessor.
  LaunchShape cooperative = {
      {2, 1, 1}, {32, 1, 1}, {1, 1, 1}, 200000, /*isCooperative=*/true};
  EXPECT_EQ("", refuse(cooperative));
  cooperative.grid[0] = 3;
  EXPECT_EQ("kernel iota: 3 blocks must run at once, at most 2 can",
            refuse(cooperative));
  EXPECT_EQ("", getFault([&] { machine.synchronize(); }));
}

//===----------------------------------------------------------------------===//
// Blocked threads
//===----------------------------------------------------------------------===//

TEST(MachineTest, DescribesDeadlocks) {
  // Half of the warps exit before the barrier that counts them.
  constexpr const char *text = R"(
.visible .entry leave()
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bra $end;
  bar.sync 1, 128;
$end:
  ret;
})";
  Machine machine;
  launch(machine, text, makeShape(2, 128), {});
  std::string fault = getFault([&] { machine.synchronize(); });
  EXPECT_NE(std::string::npos,
            fault.find("all threads wait; 128 threads, first block (0, 0, 0), "
                       "thread (0, 0, 0): kernel leave, line 12 (bar.sync), "
                       "for barrier 1, where 64 "
                       "of 128 threads have arrived"))
      << fault;
}

TEST(MachineTest, FindsDivergedLanes) {
  constexpr const char *text = R"(
.visible .entry diverge()
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 16;
  @%p1 bra $other;
  shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
  ret;
$other:
  shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
  ret;
})";
  Machine machine;
  launch(machine, text, makeShape(1, 32), {});
  std::string fault = getFault([&] { machine.synchronize(); });
  EXPECT_NE(std::string::npos,
            fault.find("line 12 (shfl.sync.idx.b32), for other lanes of the "
                       "warp"))
      << fault;
}

} // namespace
