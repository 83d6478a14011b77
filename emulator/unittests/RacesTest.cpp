//===- RacesTest.cpp - Detection of data races ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

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

TEST(RacesTest, WaitsForWordsOfOtherBlocks) {
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

TEST(RacesTest, FindsRaces) {
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

TEST(RacesTest, AllowsEqualStores) {
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

TEST(RacesTest, OrdersLaunches) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ("42", runTwo(makeSecond(""), false, seed));
    EXPECT_EQ("42", runTwo(makeSecond("griddepcontrol.wait;"), true, seed));
  }
  // Without the wait the second launch may read too early.
  std::string fault = runTwo(makeSecond(""), true, 0);
  EXPECT_NE(std::string::npos, fault.find("in no order with line ")) << fault;
}

} // namespace
