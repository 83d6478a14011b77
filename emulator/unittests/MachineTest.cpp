//===- MachineTest.cpp - The scheduler and race detection -----------------===//
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

/// Block 0 stores a number and then a flag. Block 1 polls the flag and then
/// copies the number.
std::string makeHandshake(const char *store, const char *publish,
                          const char *poll, const char *after) {
  return std::string(R"(
.visible .entry handshake(.param .u64 data, .param .u64 word, .param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [word];
  ld.param.u64 %rd3, [out];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $wait;
  mov.b32 %r2, 42;
  )") + store +
         R"( [%rd1], %r2;
  mov.b32 %r2, 1;
  )" + publish +
         R"( [%rd2], %r2;
  ret;
$wait:
  )" + poll +
         R"( %r3, [%rd2];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra $wait;
  )" + after +
         R"(
  ld.global.b32 %r4, [%rd1];
  st.global.b32 [%rd3], %r4;
  ret;
})";
}

/// The number that block 1 read, or the fault.
std::string runHandshake(const std::string &text, uint64_t seed) {
  Machine machine({}, seed);
  uint64_t data = machine.allocate(4), word = machine.allocate(4),
           out = machine.allocate(4);
  write<uint32_t>(word, 0);
  std::string fault = getFault([&] {
    launch(machine, text, makeShape(2, 1), {data, word, out});
    machine.synchronize();
  });
  return fault.empty() ? std::to_string(read<uint32_t>(out)) : fault;
}

TEST(MachineTest, WaitsForWordsOfOtherBlocks) {
  std::string text =
      makeHandshake("st.global.b32", "red.release.gpu.global.add.u32",
                    "ld.acquire.gpu.global.b32", "");
  for (uint64_t seed = 0; seed < 6; ++seed)
    EXPECT_EQ("42", runHandshake(text, seed));
  // With relaxed accesses and fences.
  text = makeHandshake("st.global.b32",
                       "fence.acq_rel.gpu;\n"
                       "  st.relaxed.gpu.global.b32",
                       "ld.relaxed.gpu.global.b32", "fence.acq_rel.gpu;");
  EXPECT_EQ("42", runHandshake(text, 0));
  // No other thread changes the flag.
  text = makeHandshake("st.global.b32", "red.release.gpu.global.add.u32",
                       "ld.acquire.gpu.global.b32", "bra $wait;");
  EXPECT_NE(std::string::npos, runHandshake(text, 0).find("all threads wait"));
}

TEST(MachineTest, FindsRaces) {
  for (auto [publish, poll] :
       {std::pair("st.relaxed.gpu.global.b32", "ld.acquire.gpu.global.b32"),
        std::pair("st.release.gpu.global.b32", "ld.relaxed.gpu.global.b32"),
        std::pair("st.volatile.global.b32", "ld.volatile.global.b32")}) {
    std::string fault =
        runHandshake(makeHandshake("st.global.b32", publish, poll, ""), 0);
    EXPECT_NE(std::string::npos, fault.find("reads global memory at 0x"))
        << publish << " " << poll << ": " << fault;
    EXPECT_NE(std::string::npos,
              fault.find("in no order with line 17 of handshake, block (0, 0, "
                         "0), warp 0, which writes it"))
        << fault;
  }
}

TEST(MachineTest, AllowsEqualStores) {
  // Blocks without work may repeat the stores of the last one. Block 0 stores
  // the second of two words, the others store both.
  auto store = [](const char *value) {
    Machine machine;
    uint64_t out = machine.allocate(8);
    std::string text = R"(
.visible .entry store(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %p1, %r1, 0;
  mov.b32 %r2, )" + std::string(value) +
                       R"(;
  @%p1 st.global.b32 [%rd1+4], %r2;
  @!%p1 st.global.v2.b32 [%rd1], {7, %r2};
  ret;
})";
    return getFault([&] {
      launch(machine, text, makeShape(3, 1), {out});
      machine.synchronize();
    });
  };
  EXPECT_EQ("", store("5"));
  EXPECT_NE(std::string::npos, store("%r1").find("writes global memory at 0x"));
}

//===----------------------------------------------------------------------===//
// Launches that overlap
//===----------------------------------------------------------------------===//

constexpr const char *kFirst = R"(
.visible .entry first(.param .u64 data)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [data];
  griddepcontrol.launch_dependents;
  mov.b32 %r1, 42;
  st.global.b32 [%rd1], %r1;
  ret;
})";

std::string makeSecond(const char *before) {
  return std::string(R"(
.visible .entry second(.param .u64 data, .param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [out];
  )") + before +
         R"(
  ld.global.b32 %r1, [%rd1];
  st.global.b32 [%rd2], %r1;
  ret;
})";
}

/// What the second of two launches reads of the data that the first one stores.
std::string runTwo(const std::string &second, bool isProgrammatic,
                   uint64_t seed) {
  Machine machine({}, seed);
  uint64_t data = machine.allocate(4), out = machine.allocate(4);
  std::string fault = getFault([&] {
    launch(machine, kFirst, makeShape(1, 1), {data});
    LaunchShape shape = makeShape(1, 1);
    shape.isProgrammatic = isProgrammatic;
    launch(machine, second, shape, {data, out});
    machine.synchronize();
  });
  return fault.empty() ? std::to_string(read<uint32_t>(out)) : fault;
}

TEST(MachineTest, OrdersLaunches) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ("42", runTwo(makeSecond(""), false, seed));
    EXPECT_EQ("42", runTwo(makeSecond("griddepcontrol.wait;"), true, seed));
  }
  // Without the wait the second launch may read too early.
  std::string fault = runTwo(makeSecond(""), true, 0);
  EXPECT_NE(std::string::npos, fault.find("in no order with line ")) << fault;
}

} // namespace
