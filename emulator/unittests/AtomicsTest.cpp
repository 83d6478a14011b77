//===- AtomicsTest.cpp - Atomic operations --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

/// Returns a word after one thread has changed it. `%value` is its previous
/// value; its width is 32 or 64 bits.
template <typename T>
T run(const std::string &instruction, T before, T *old = nullptr) {
  constexpr bool isWide = sizeof(T) == 8;
  Machine machine;
  uint64_t word = machine.allocate(8), out = machine.allocate(8);
  write<T>(word, before);
  std::string text = std::string(R"(
.visible .entry change(.param .u64 word, .param .u64 out)
{
  .reg .b)") + (isWide ? "64" : "32") +
                     R"( %value;
  .reg .b64 %word, %out;
  ld.param.u64 %word, [word];
  ld.param.u64 %out, [out];
  )" + instruction +
                     (isWide ? "\n  st.global.b64 [%out], %value;\n  ret;\n}"
                             : "\n  st.global.b32 [%out], %value;\n  ret;\n}");
  launch(machine, text, makeShape(1, 1), {word, out});
  machine.synchronize();
  if (old)
    *old = read<T>(out);
  return read<T>(word);
}

TEST(AtomicsTest, ReturnsThePreviousValue) {
  uint32_t old = 0;
  EXPECT_EQ(7U,
            run<uint32_t>("atom.global.add.u32 %value, [%word], 2;", 5, &old));
  EXPECT_EQ(5U, old);
  EXPECT_EQ(9U, run<uint32_t>("atom.exch.b32 %value, [%word], 9;", 5, &old));
  EXPECT_EQ(5U, old);
  uint64_t wide = 0;
  EXPECT_EQ(0x100000001ULL,
            run<uint64_t>("atom.acq_rel.gpu.global.add.u64 %value, [%word], 2;",
                          0xffffffffULL, &wide));
  EXPECT_EQ(0xffffffffULL, wide);
}

TEST(AtomicsTest, ComparesBeforeItExchanges) {
  uint32_t old = 0;
  EXPECT_EQ(8U, run<uint32_t>("atom.cas.b32 %value, [%word], 5, 8;", 5, &old));
  EXPECT_EQ(5U, old);
  EXPECT_EQ(6U, run<uint32_t>("atom.cas.b32 %value, [%word], 5, 8;", 6, &old));
  EXPECT_EQ(6U, old);
}

TEST(AtomicsTest, ReducesEveryType) {
  auto red = [](const std::string &text, uint32_t before) {
    return run<uint32_t>("red.global." + text + "; mov.b32 %value, 0;", before);
  };
  EXPECT_EQ(uint32_t(-3), red("min.s32 [%word], -3", 2));
  EXPECT_EQ(2U, red("min.u32 [%word], -3", 2));
  EXPECT_EQ(2U, red("max.s32 [%word], -3", 2));
  EXPECT_EQ(4U, red("and.b32 [%word], 12", 6));
  EXPECT_EQ(14U, red("or.b32 [%word], 12", 6));
  EXPECT_EQ(10U, red("xor.b32 [%word], 12", 6));
  // inc and dec wrap around at the operand.
  EXPECT_EQ(3U, red("inc.u32 [%word], 3", 2));
  EXPECT_EQ(0U, red("inc.u32 [%word], 3", 3));
  EXPECT_EQ(3U, red("dec.u32 [%word], 3", 0));
  EXPECT_EQ(1U, red("dec.u32 [%word], 3", 2));
  EXPECT_EQ(0x40400000U, red("add.f32 [%word], 0f40000000", 0x3f800000));
  // 1 + 2 in the lower half, 1 + 256 in the upper, which bf16 rounds to 256.
  EXPECT_EQ(0x43804040U,
            red("add.noftz.bf16x2 [%word], 0x43804000", 0x3f803f80));
  EXPECT_EQ(0x5c044200U,
            red("add.noftz.f16x2 [%word], 0x5c004000", 0x3c003c00));
}

TEST(AtomicsTest, AddsUpOverBlocks) {
  constexpr const char *text = R"(
.visible .entry count(.param .u64 word)
{
  .reg .b64 %word;
  ld.param.u64 %word, [word];
  red.relaxed.gpu.global.add.u32 [%word], 1;
  ret;
})";
  for (uint64_t seed : {0, 1, 2}) {
    Machine machine({}, seed);
    uint64_t word = machine.allocate(4);
    write<uint32_t>(word, 0);
    launch(machine, text, makeShape(9, 65), {word});
    machine.synchronize();
    EXPECT_EQ(9U * 65, read<uint32_t>(word));
  }
}

/// Blocks acquire a lock one after another. The result register is also the
/// expected value.
TEST(AtomicsTest, WaitsForLocks) {
  constexpr const char *text = R"(
.visible .entry add(.param .u64 lock, .param .u64 sum)
{
  .reg .pred %p<2>; .reg .b64 %lock, %sum; .reg .b32 %old, %value;
  ld.param.u64 %lock, [lock]; ld.param.u64 %sum, [sum];
again:
  mov.b32 %old, 0;
  atom.acquire.gpu.cas.b32 %old, [%lock], %old, 1;
  setp.ne.u32 %p1, %old, 0;
  @%p1 bra again;
  ld.global.u32 %value, [%sum];
  nanosleep.u32 100;
  add.u32 %value, %value, 1;
  st.global.u32 [%sum], %value;
  atom.release.gpu.exch.b32 %old, [%lock], 0;
})";
  for (uint64_t seed : {0, 1, 2, 3}) {
    Machine machine({}, seed);
    uint64_t lock = machine.allocate(4), sum = machine.allocate(4);
    write<uint32_t>(lock, 0);
    write<uint32_t>(sum, 0);
    launch(machine, text, makeShape(20, 1), {lock, sum});
    EXPECT_EQ("", getFault([&] { machine.synchronize(); }));
    EXPECT_EQ(20U, read<uint32_t>(sum));
  }
  // A lock that is never released.
  Machine machine;
  uint64_t lock = machine.allocate(4);
  write<uint32_t>(lock, 1);
  launch(machine, text, makeShape(1, 1), {lock, lock});
  EXPECT_NE(std::string::npos,
            getFault([&] { machine.synchronize(); }).find("all threads wait"));
}

TEST(AtomicsTest, RefusesUnknownForms) {
  for (auto [instruction, message] :
       {std::pair("atom.global.add.s64 %value, [%word], 2;",
                  "the emulator does not know atom.global.add.s64"),
        std::pair("red.global.exch.b32 [%word], 2;",
                  "the emulator does not know red.global.exch.b32"),
        std::pair("atom.global.b32 %value, [%word], 2;",
                  "atom has no operation that the emulator knows"),
        std::pair("atom.global.cas.b32 %value, [%word], 2;",
                  "atom has 3 operands here, expected 4"),
        std::pair("red.async.relaxed.cluster.shared::cluster.add.u32 [%word], "
                  "1;",
                  "the emulator does not know red with .async")}) {
    try {
      (void)run<uint32_t>(instruction, 0);
      FAIL() << instruction;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string::npos, std::string(error.what()).find(message))
          << error.what();
    }
  }
}

} // namespace
