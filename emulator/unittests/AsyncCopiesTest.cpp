//===- AsyncCopiesTest.cpp - Asynchronous copies --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"
#include "machine/TensorMap.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

/// A kernel of one warp, of which lane 0 issues copies. It has the addresses
/// %in and %out. `memory` has an mbarrier at offset 0 and data from offset 1024
/// on. %p1 is true in the other lanes, and %r2 is the rank of the block.
std::string makeKernel(const std::string &body) {
  return R"(
.visible .entry test(.param .align 64 .b8 map[128], .param .u64 in,
                     .param .u64 out) {
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .reg .b16 %h<4>;
  .reg .b64 %rd<16>, %in, %out, %map;
  .shared .align 1024 .b8 memory[16384];
  mov.b64 %rd1, map;
  cvta.param.u64 %map, %rd1;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared.b64 [memory], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  @%p1 bra $end;
)" + body +
         R"(
$end:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
})";
}

const char *kWait = R"(
$wait:
  mbarrier.try_wait.parity.shared.b64 %p2, [memory], 0;
  @!%p2 bra $wait;
)";

/// Stores `words` words of shared memory from `from` on. Blocks store one after
/// another.
std::string store(unsigned from, unsigned words) {
  std::string result = "  mul.wide.u32 %rd8, %r2, " +
                       std::to_string(4 * words) +
                       ";\n  add.s64 %rd8, %rd8, %out;\n";
  for (unsigned i = 0; i < words; ++i)
    result += "  ld.shared.u32 %r9, [memory+" + std::to_string(from + 4 * i) +
              "];\n  st.global.u32 [%rd8+" + std::to_string(4 * i) +
              "], %r9;\n";
  return result;
}

/// Words that all differ.
uint32_t getWord(uint32_t i) { return 0x10000 + i; }

/// A tensor map for 24 columns and 10 rows in `in`, with boxes of eight columns
/// and four rows.
TensorMap makeMap() {
  TensorMap map;
  map.rank = 2;
  map.elementBytes = 4;
  map.sizes = {24, 10};
  map.strides = {24 * 4};
  map.box = {8, 4};
  map.steps = {1, 1};
  return map;
}

/// Whether races are detected. They are found no matter when copies complete.
bool findsRaces = true;

/// Runs a kernel with several seeds on kWords words. The result is what it
/// stored, or its fault.
class Emulation {
public:
  explicit Emulation(const std::string &body, unsigned blocks = 1,
                     const TensorMap &map = makeMap(), bool isStored = false) {
    std::string text = makeKernel(body);
    for (uint64_t seed : {0, 1, 2, 3, 4}) {
      Limits limits;
      limits.findsRaces = findsRaces;
      Machine machine(limits, seed);
      uint64_t in = machine.allocate(kWords * 4);
      uint64_t out = machine.allocate(kWords * 4);
      for (uint32_t i = 0; i < kWords; ++i)
        write(in + 4 * i, getWord(i));
      std::memset(reinterpret_cast<void *>(out), 0, kWords * 4);
      std::vector<uint8_t> parameters(128 + 16);
      TensorMap placed = map;
      placed.address = isStored ? out : in;
      std::memcpy(parameters.data(), &placed, sizeof(placed));
      std::memcpy(parameters.data() + 128, &in, 8);
      std::memcpy(parameters.data() + 136, &out, 8);
      LaunchShape shape = makeShape(blocks, 32);
      shape.cluster[0] = blocks;
      fault = getFault([&] {
        machine.launch(compile(machine, text), nullptr, shape, parameters, 0);
        machine.synchronize();
      });
      std::vector<uint32_t> found(kWords);
      std::memcpy(found.data(), reinterpret_cast<void *>(out), kWords * 4);
      if (seed == 0)
        words = found;
      else if (fault.empty())
        EXPECT_EQ(words, found) << "seed " << seed;
      if (!fault.empty())
        break;
    }
  }

  static constexpr unsigned kWords = 1024;
  std::vector<uint32_t> words;
  std::string fault;
};

#define EXPECT_FAULT(TEXT, ...)                                                \
  do {                                                                         \
    std::string fault = Emulation(__VA_ARGS__).fault;                          \
    EXPECT_NE(std::string::npos, fault.find(TEXT)) << fault;                   \
  } while (false)

/// Expects a fault without race detection, which only happens if a copy
/// completes late.
#define EXPECT_LATE_FAULT(TEXT, ...)                                           \
  do {                                                                         \
    findsRaces = false;                                                        \
    EXPECT_FAULT(TEXT, __VA_ARGS__);                                           \
    findsRaces = true;                                                         \
  } while (false)

std::string replace(std::string text, const std::string &from,
                    const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(std::string::npos, at) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

const std::string kLoad = R"(
  mbarrier.arrive.expect_tx.shared.b64 %rd2, [memory], 32;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    [memory+1024], [%in+64], 32, [memory];
)";

TEST(AsyncCopiesTest, LoadsBytes) {
  Emulation emulation(kLoad + kWait + store(1024, 9));
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 8; ++i)
    EXPECT_EQ(getWord(16 + i), emulation.words[i]);
  // This memory was never written.
  EXPECT_EQ(0xffffffffu, emulation.words[8]);
  std::string hinted = replace(kLoad, "bytes\n    [", "bytes.L2::cache_hint [");
  hinted = replace(hinted, "32, [memory];", "32, [memory], %rd3;");
  EXPECT_EQ(emulation.words, Emulation(hinted + kWait + store(1024, 9)).words);
  std::string own = replace(kLoad, "shared::cluster", "shared::cta");
  EXPECT_EQ(emulation.words, Emulation(own + kWait + store(1024, 9)).words);
}

TEST(AsyncCopiesTest, FindsMbarriersWithoutFence) {
  std::string again = "  mbarrier.inval.shared.b64 [memory];\n"
                      "  mbarrier.init.shared.b64 [memory], 1;\n";
  EXPECT_EQ("", Emulation(again + "  fence.proxy.async.shared::cta;\n" + kLoad +
                          kWait)
                    .fault);
  for (const char *other : {"", "  fence.proxy.async.global;\n"})
    EXPECT_FAULT(
        "an mbarrier at 1024 of block (0, 0, 0) is used by a copy, and "
        "line 25 has initialized it without fence.mbarrier_init or "
        "fence.proxy.async after it",
        again + other + kLoad + kWait);
}

TEST(AsyncCopiesTest, FindsReadsWithoutWait) {
  EXPECT_FAULT("(ld.shared.u32): reads shared memory at 2048, in no order with "
               "line 26 of test, block (0, 0, 0), warp 0, which writes it",
               kLoad + store(1024, 1) + kWait);
  EXPECT_LATE_FAULT(
      "(ld.shared.u32): read at 2048 of block (0, 0, 0) while "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes of line 26 still writes it",
      kLoad + store(1024, 1) + kWait);
  EXPECT_LATE_FAULT("(st.shared.u32): write at 2076 of block (0, 0, 0) while ",
                    kLoad + "st.shared.u32 [memory+1052], 0;" + kWait);
  // The bytes after the copy are not pending.
  EXPECT_EQ("",
            Emulation(kLoad + "st.shared.u32 [memory+1056], 0;" + kWait).fault);
  EXPECT_FAULT("ends while line 26 (cp.async.bulk.shared::cluster.global."
               "mbarrier::complete_tx::bytes) writes its shared memory",
               kLoad);
}

TEST(AsyncCopiesTest, CountsBytes) {
  EXPECT_FAULT("which waits for 0 of 1 arrivals and 16 bytes",
               replace(kLoad, "[memory], 32;", "[memory], 48;") + kWait);
  EXPECT_FAULT("16 bytes more than expected have landed at the mbarrier at "
               "1024 of block (0, 0, 0)",
               replace(kLoad, "[memory], 32;", "[memory], 16;") + kWait);
  // Bytes may arrive before they are expected.
  EXPECT_EQ("", Emulation(R"(
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    [memory+1024], [%in], 16, [memory];
  mbarrier.arrive.expect_tx.shared.b64 %rd2, [memory], 16;)" +
                          std::string(kWait))
                    .fault);
}

TEST(AsyncCopiesTest, ChecksAddresses) {
  EXPECT_FAULT("a copy 4 bytes after a multiple of 16 in global memory",
               replace(kLoad, "%in+64", "%in+4"));
  EXPECT_FAULT("a copy of 24 bytes, not a multiple of 16",
               replace(kLoad, "], 32, [", "], 24, ["));
  EXPECT_FAULT("shared memory at 2056 of block (0, 0, 0) is not aligned to 16",
               replace(kLoad, "memory+1024", "memory+1032"));
  EXPECT_FAULT("of which only 16 are allocated",
               replace(kLoad, "%in+64", "%in+4080"));
  EXPECT_FAULT("32 bytes of shared memory at 17392 of block (0, 0, 0), which "
               "has addresses from 1024 to 17408",
               replace(kLoad, "memory+1024", "memory+16368"));
  EXPECT_FAULT(
      "an mbarrier at 1032 of block (0, 0, 0) has not been initialized",
      replace(kLoad, "32, [memory]", "32, [memory+8]"));
}

TEST(AsyncCopiesTest, ChecksPrefetches) {
  EXPECT_EQ("", Emulation("cp.async.bulk.prefetch.L2.global [%in+16], 4080;\n"
                          "cp.async.bulk.prefetch.tensor.2d.L2.global.tile "
                          "[%map, {0, 0}];")
                    .fault);
  EXPECT_FAULT("of which only 4080 are allocated",
               "cp.async.bulk.prefetch.L2.global [%in+16], 4096;");
}

//===----------------------------------------------------------------------===//
// Other blocks
//===----------------------------------------------------------------------===//

const std::string kMulticast = R"(
  mov.b16 %h1, 3;
  setp.eq.u32 %p3, %r2, 1;
  mbarrier.arrive.expect_tx.shared.b64 %rd2, [memory], 32;
  @%p3 )"
                               "cp.async.bulk.shared::cluster.global"
                               ".mbarrier::complete_tx::bytes"
                               ".multicast::cluster "
                               "[memory+1024], [%in], 32, [memory], %h1;\n";

TEST(AsyncCopiesTest, LoadsForAllBlocks) {
  Emulation emulation(kMulticast + kWait + store(1024, 8), 2);
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 16; ++i)
    EXPECT_EQ(getWord(i % 8), emulation.words[i]);
  EXPECT_FAULT("a mask of 7 for a cluster of 2",
               replace(kMulticast, "%h1, 3", "%h1, 7"), 2);
  // One block does not receive the copy.
  EXPECT_FAULT("which waits for 0 of 1 arrivals and 32 bytes",
               replace(kMulticast, "%h1, 3", "%h1, 1") + kWait, 2);
}

const std::string kToOther = R"(
  mov.u32 %r3, memory;
  mapa.shared::cluster.u32 %r4, %r3, 1;
  mbarrier.arrive.expect_tx.shared.b64 %rd2, [memory], 16;
  setp.eq.u32 %p3, %r2, 1;
  @%p3 bra $wait;
  st.shared.v4.u32 [memory+512], {1, 2, 3, 4};
  fence.proxy.async.shared::cta;
  mbarrier.complete_tx.shared::cta.b64 [memory], 16;
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
    [%r4+1024], [memory+512], 16, [%r4];
)";

TEST(AsyncCopiesTest, CopiesToAnotherBlock) {
  Emulation emulation(kToOther + kWait + store(1024, 4), 2);
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(0xffffffffu, emulation.words[i]);
    EXPECT_EQ(i + 1, emulation.words[4 + i]);
  }
  EXPECT_FAULT("a copy to block (1, 0, 0) with the mbarrier at 1024 of block "
               "(0, 0, 0)",
               replace(kToOther, "16, [%r4]", "16, [memory]") + kWait, 2);
  EXPECT_FAULT("through the async proxy, which line 30 of test, block (0, 0, "
               "0), warp 0 has written, without fence.proxy.async in between",
               replace(kToOther, "fence.proxy.async.shared::cta;", "") + kWait,
               2);
  EXPECT_LATE_FAULT("write at 1536 of block (0, 0, 0) while ",
                    kToOther + "  st.shared.u32 [memory+512], 0;" + kWait, 2);
}

//===----------------------------------------------------------------------===//
// To global memory
//===----------------------------------------------------------------------===//

const std::string kStore = R"(
  st.shared.v4.u32 [memory+512], {1, 2, 3, 4};
  fence.proxy.async.shared::cta;
  cp.async.bulk.global.shared::cta.bulk_group [%out+32], [memory+512], 16;
  cp.async.bulk.commit_group;
)";

TEST(AsyncCopiesTest, StoresBytes) {
  Emulation emulation(kStore + "cp.async.bulk.wait_group 0;");
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 16; ++i)
    EXPECT_EQ(i / 4 == 2 ? i - 7 : 0, emulation.words[i]);
  // Shared memory can be reused once it has been read.
  std::string next = "  st.shared.u32 [memory+512], 0;\n"
                     "  cp.async.bulk.wait_group 0;";
  EXPECT_EQ(
      emulation.words,
      Emulation(kStore + "cp.async.bulk.wait_group.read 0;\n" + next).words);
  EXPECT_FAULT("in no order with line 27", kStore + next);
  EXPECT_LATE_FAULT("still reads it", kStore + next);
  EXPECT_LATE_FAULT("still reads it",
                    kStore + "cp.async.bulk.wait_group.read 1;\n" + next);
  EXPECT_FAULT("ends while line 27 (cp.async.bulk.global.shared::cta."
               "bulk_group) reads its shared memory",
               kStore);
}

TEST(AsyncCopiesTest, WaitsForAllButTheNewest) {
  std::string body = R"(
  cp.async.bulk.global.shared::cta.bulk_group [%out], [memory+512], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.global.shared::cta.bulk_group [%out+16], [memory+528], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 1;
  st.shared.u32 [memory+512], 0;
  WAIT
  st.shared.u32 [memory+528], 0;
  cp.async.bulk.wait_group 0;
)";
  EXPECT_EQ("",
            Emulation(replace(body, "WAIT", "cp.async.bulk.wait_group.read 0;"))
                .fault);
  EXPECT_LATE_FAULT("write at 1552 of block (0, 0, 0) while ",
                    replace(body, "WAIT", ""));
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::string loadTensor(const std::string &coordinates, unsigned bytes,
                       unsigned rank = 2) {
  return "  mbarrier.arrive.expect_tx.shared.b64 %rd2, [memory], " +
         std::to_string(bytes) + ";\n  cp.async.bulk.tensor." +
         std::to_string(rank) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
         "[memory+1024], [%map, {" +
         coordinates + "}], [memory];\n";
}

/// Element (column, row) of makeMap, or zero outside of the tensor.
uint32_t getElement(int column, int row) {
  return column < 0 || column >= 24 || row < 0 || row >= 10
             ? 0
             : getWord(static_cast<uint32_t>(row * 24 + column));
}

TEST(AsyncCopiesTest, LoadsBoxes) {
  const std::pair<int, int> places[] = {{8, 3},   {20, 3}, {8, 8},
                                        {-3, -2}, {-8, 0}, {24, 0},
                                        {0, 10},  {0, -4}, {23, 9}};
  for (auto [column, row] : places) {
    std::string coordinates =
        std::to_string(column) + ", " + std::to_string(row);
    // All bytes of a box count, wherever the box is.
    Emulation emulation(loadTensor(coordinates, 128) + kWait + store(1024, 32));
    EXPECT_EQ("", emulation.fault);
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(getElement(column + i % 8, row + i / 8),
                emulation.words[static_cast<size_t>(i)])
          << coordinates << " at " << i;
  }
}

TEST(AsyncCopiesTest, PermutesBoxes) {
  TensorMap map = makeMap();
  map.swizzle = 32;
  map.box = {8, 10};
  Emulation emulation(loadTensor("8, 0", 320) + kWait + store(1024, 80), 1,
                      map);
  EXPECT_EQ("", emulation.fault);
  // Each row has two chunks. They are exchanged in every other group of 128
  // bytes.
  for (int i = 0; i < 80; ++i) {
    int chunk = i % 8 / 4 ^ (i / 32 & 1);
    EXPECT_EQ(getElement(8 + chunk * 4 + i % 4, i / 8),
              emulation.words[static_cast<size_t>(i)])
        << i;
  }
  // The swizzle depends on the address, not on the start of the box.
  std::string shifted = loadTensor("8, 0", 128);
  shifted = replace(shifted, "memory+1024", "memory+1152");
  map.box = {8, 4};
  Emulation second(shifted + kWait + store(1152, 32), 1, map);
  EXPECT_EQ("", second.fault);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(getElement(8 + (i % 8 ^ 4), i / 8),
              second.words[static_cast<size_t>(i)]);
}

TEST(AsyncCopiesTest, LoadsOfAllRanks) {
  // Every second element of the third dimension, past its end.
  TensorMap map = makeMap();
  map.rank = 3;
  map.sizes = {4, 3, 5};
  map.strides = {16, 48};
  map.box = {4, 2, 4};
  map.steps = {1, 1, 2};
  Emulation emulation(loadTensor("0, 1, 2", 64, 3) + kWait + store(1024, 16), 1,
                      map);
  EXPECT_EQ("", emulation.fault);
  for (uint32_t i = 0; i < 16; ++i) {
    uint32_t row = 1 + i / 4 % 2, plane = 2 + 2 * (i / 8);
    EXPECT_EQ(getWord(plane * 12 + row * 4 + i % 4), emulation.words[i]) << i;
  }
  TensorMap line = makeMap();
  line.rank = 1;
  line.box = {8};
  Emulation one(loadTensor("20", 32, 1) + kWait + store(1024, 8), 1, line);
  EXPECT_EQ("", one.fault);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(getElement(20 + i, 0), one.words[static_cast<size_t>(i)]);
  EXPECT_FAULT("a tensor of 2 dimensions in a copy of 1",
               loadTensor("0", 128, 1));
}

TEST(AsyncCopiesTest, FillsWithNan) {
  TensorMap map = makeMap();
  map.fillsNan = true;
  Emulation emulation(loadTensor("20, 0", 128) + kWait + store(1024, 32), 1,
                      map);
  EXPECT_EQ("", emulation.fault);
  EXPECT_EQ(getWord(23), emulation.words[3]);
  EXPECT_EQ(0x7fffffffu, emulation.words[4]);
}

TEST(AsyncCopiesTest, ChecksTensors) {
  std::string load = loadTensor("0, 0", 128);
  EXPECT_FAULT("there is no tensor map", replace(load, "%map", "%in"));
  EXPECT_FAULT("shared memory at 2064 of block (0, 0, 0) is not aligned to 128",
               replace(load, "memory+1024", "memory+1040"));
  // Elements outside of the tensor are not read, all others are.
  TensorMap map = makeMap();
  map.sizes[1] = 43;
  EXPECT_FAULT("are not in an allocation", loadTensor("16, 42", 128), 1, map);
  map.sizes[1] = 42;
  EXPECT_EQ("", Emulation(loadTensor("16, 41", 128) + kWait, 1, map).fault);
}

TEST(AsyncCopiesTest, StoresBoxes) {
  std::string body;
  for (unsigned i = 0; i < 32; ++i)
    body += "  st.shared.u32 [memory+" + std::to_string(1024 + 4 * i) + "], " +
            std::to_string(i + 1) + ";\n";
  body += R"(
  fence.proxy.async.shared::cta;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
    [%map, {20, -1}], [memory+1024];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
)";
  for (unsigned swizzleBytes : {0u, 32u}) {
    TensorMap map = makeMap();
    map.swizzle = static_cast<uint8_t>(swizzleBytes);
    Emulation emulation(body, 1, map, /*isStored=*/true);
    EXPECT_EQ("", emulation.fault);
    for (unsigned i = 0; i < Emulation::kWords; ++i) {
      unsigned column = i % 24, row = i / 24;
      bool isIn = column >= 20 && row < 3;
      EXPECT_EQ(isIn ? (row + 1) * 8 + column - 20 + 1 : 0, emulation.words[i])
          << i;
    }
  }
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

const std::string kPlain = R"(
  cp.async.cg.shared.global [memory+1024], [%in], 16;
  cp.async.commit_group;
  cp.async.ca.shared.global.L2::128B [memory+1040], [%in+32], 8, 4;
  cp.async.commit_group;
)";

TEST(AsyncCopiesTest, CopiesInGroups) {
  Emulation emulation(kPlain + "cp.async.wait_group 0;\n" + store(1024, 7));
  EXPECT_EQ("", emulation.fault);
  EXPECT_EQ(getWord(3), emulation.words[3]);
  EXPECT_EQ(getWord(8), emulation.words[4]);
  EXPECT_EQ(0u, emulation.words[5]);
  EXPECT_EQ(0xffffffffu, emulation.words[6]);
  EXPECT_EQ(emulation.words,
            Emulation(kPlain + "cp.async.wait_all;\n" + store(1024, 7)).words);
  std::string first = kPlain + "cp.async.wait_group 1;\n" + store(1024, 4);
  EXPECT_EQ("", Emulation(first + "cp.async.wait_all;\n").fault);
  EXPECT_FAULT("read at 2064 of block (0, 0, 0) while cp.async.ca.shared."
               "global.L2::128B of line 27 still writes it",
               kPlain + "cp.async.wait_group 1;\n" + store(1024, 5));
  // Both copies write to the same 16 bytes, each to eight of them.
  EXPECT_EQ("", Emulation(kPlain + R"(
  cp.async.ca.shared.global [memory+1048], [%in+64], 8;
  cp.async.wait_all;)")
                    .fault);
}

TEST(AsyncCopiesTest, ArrivesAfterCopies) {
  for (const char *arrive :
       {"cp.async.mbarrier.arrive.noinc.shared.b64 [memory];",
        "cp.async.mbarrier.arrive.shared.b64 [memory];\n"
        "  mbarrier.arrive.shared.b64 %rd2, [memory];"}) {
    Emulation emulation(kPlain + arrive + kWait + store(1024, 5));
    EXPECT_EQ("", emulation.fault);
    EXPECT_EQ(getWord(8), emulation.words[4]);
  }
}

TEST(AsyncCopiesTest, RefusesUnknownForms) {
  auto refuse = [](const std::string &body) {
    Machine machine;
    try {
      (void)compile(machine, makeKernel(body));
    } catch (const std::runtime_error &error) {
      std::string what = error.what();
      return what.substr(what.find(": ") + 2);
    }
    return std::string();
  };
  EXPECT_EQ("the emulator does not know cp.async.bulk with .im2col",
            refuse(replace(loadTensor("0, 0", 16), ".tile", ".im2col")));
  const std::string needed = "copies to shared memory, and only those, need "
                             ".mbarrier::complete_tx::bytes";
  EXPECT_EQ(needed,
            refuse(replace(kLoad, ".mbarrier::complete_tx::bytes", "")));
  EXPECT_EQ(needed,
            refuse(replace(kStore, ".bulk_group",
                           ".bulk_group.mbarrier::complete_tx::bytes")));
  EXPECT_EQ("the emulator does not know copies of .global.shared::cta",
            refuse(replace(kStore, ".bulk_group", "")));
  EXPECT_EQ("cp.async copies 16 bytes, with .ca also 4 or 8",
            refuse(replace(kPlain, "[%in], 16", "[%in], 8")));
  EXPECT_EQ("the emulator does not know cp.async of .global.shared",
            refuse("cp.async.cg.global.shared [%in], [memory], 16;"));
  EXPECT_EQ("a prefetch with dimensions must be .tensor",
            refuse("cp.async.bulk.prefetch.2d.L2.global [%in], 16;"));
  EXPECT_EQ("the emulator does not know cp.async.wait_group with .read",
            refuse("cp.async.wait_group.read 0;"));
  EXPECT_EQ("operand 0 of cp must be a number",
            refuse("cp.async.wait_group %r1;"));
  EXPECT_EQ("cp has 5 operands here, expected 4",
            refuse(replace(kLoad, "32, [memory];", "32, [memory], %rd3;")));
}

} // namespace
