//===- BarriersTest.cpp - Barriers of blocks and clusters, mbarriers ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

/// A kernel with registers %r, %rd and %p. %out is the address of the results,
/// %r1 the thread.
std::string makeKernel(const std::string &body,
                       const std::string &shared = ".shared .align 8 .b8 "
                                                   "memory[64];") {
  return R"(
.visible .entry test(.param .u64 out)
{
  .reg .pred %p<8>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<16>, %out;
  )" + shared +
         R"(
  ld.param.u64 %out, [out];
  mov.u32 %r1, %tid.x;
)" + body +
         R"(
  ret;
})";
}

/// Runs a kernel with several seeds. The result is its words or its fault.
class Emulation {
public:
  explicit Emulation(const std::string &body, unsigned threads = 64,
                     unsigned blocks = 1, unsigned cluster = 1) {
    std::string text = makeKernel(body);
    for (uint64_t seed : {0, 1, 2, 3}) {
      Machine machine(Limits(), seed);
      uint64_t out = machine.allocate(kWords * 4);
      std::memset(reinterpret_cast<void *>(out), 0, kWords * 4);
      LaunchShape shape = makeShape(blocks, threads);
      shape.cluster[0] = cluster;
      fault = getFault([&] {
        launch(machine, text, shape, {out});
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

  static constexpr unsigned kWords = 256;
  std::vector<uint32_t> words;
  std::string fault;
};

#define EXPECT_FAULT(TEXT, BODY, ...)                                          \
  do {                                                                         \
    std::string fault = Emulation(BODY, ##__VA_ARGS__).fault;                  \
    EXPECT_NE(std::string::npos, fault.find(TEXT)) << fault;                   \
  } while (false)

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

/// Warp 0 stores a word that warp 1 reads. `first` is executed between by warp
/// 0, `second` by warp 1.
std::string pass(const std::string &first, const std::string &second) {
  return R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra $second;
  st.shared.u32 [memory], 7;
  )" + first +
         R"(
  bra.uni $end;
$second:
  )" + second +
         R"(
  ld.shared.u32 %r2, [memory];
  st.global.u32 [%out], %r2;
$end:)";
}

TEST(BarriersTest, WaitsForAll) {
  for (const char *barrier :
       {"bar.sync 0;", "bar.sync 3, 64;", "barrier.sync 0;",
        "barrier.sync.aligned 15, 64;", "bar.cta.sync 1;",
        "mov.u32 %r3, 2; bar.sync %r3, 64;"})
    EXPECT_EQ(7u, Emulation(pass(barrier, barrier)).words[0]) << barrier;
}

TEST(BarriersTest, ArrivesWithoutWaiting) {
  EXPECT_EQ(7u,
            Emulation(pass("bar.arrive 1, 64;", "bar.sync 1, 64;")).words[0]);
  EXPECT_FAULT("in no order with line",
               pass("bar.arrive 1, 64;", "bar.arrive 1, 64;"));
}

TEST(BarriersTest, WaitsForRunningWarps) {
  EXPECT_EQ(1u, Emulation(R"(
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra $end;
  bar.sync 0;
  st.global.u32 [%out], 1;
$end:)")
                    .words[0]);
  EXPECT_FAULT("32 of 64 threads have arrived", R"(
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra $end;
  bar.sync 0, 64;
$end:)");
}

TEST(BarriersTest, CountsMissingLanes) {
  // The second warp has eight threads, the barrier is for 64.
  EXPECT_EQ("", Emulation("bar.sync 1, 64;", 40).fault);
  EXPECT_EQ("", Emulation("barrier.sync 1, 64;", 40).fault);
}

TEST(BarriersTest, FindsWrongCounts) {
  EXPECT_FAULT("barrier 1 is used for 32 threads, and for 64 by those before",
               pass("bar.sync 1, 64;", "bar.sync 1, 32;"));
  EXPECT_FAULT("65 threads at barrier 1, which is for 64", R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra $end;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 barrier.arrive 1, 64;
  bar.warp.sync -1;
  bar.arrive 1, 64;
  bar.arrive 1, 64;
$end:)");
  EXPECT_FAULT("barrier 16 of 16", "bar.sync 16;");
  EXPECT_FAULT("barrier of 48 threads, expected a multiple of 32 up to 64",
               "bar.arrive 0, 48;");
  EXPECT_FAULT("barrier of 96 threads, expected a multiple of 32 up to 64",
               "bar.arrive 0, 96;");
  EXPECT_FAULT("the barrier differs in a warp: 0 and, in lane 1, 1",
               "and.b32 %r2, %r1, 7; bar.sync %r2, 64;");
}

TEST(BarriersTest, CountsPredicates) {
  std::string body = R"(
  setp.lt.u32 %p1, %r1, 40;
  bar.red.popc.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 1, 64, %p1;
  bar.red.or.pred %p3, 2, !%p1;
  selp.u32 %r3, 100, 0, %p2;
  selp.u32 %r4, 1000, 0, %p3;
  add.u32 %r2, %r2, %r3;
  add.u32 %r2, %r2, %r4;
  mul.wide.u32 %rd1, %r1, 4;
  add.s64 %rd1, %out, %rd1;
  st.global.u32 [%rd1], %r2;)";
  Emulation emulation(body);
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 64; ++i)
    EXPECT_EQ(1040u, emulation.words[i]);
}

//===----------------------------------------------------------------------===//
// Barriers of clusters
//===----------------------------------------------------------------------===//

/// Block 0 stores into the shared memory of block 1, which reads it after
/// `barrier`.
std::string passInCluster(const std::string &barrier) {
  return R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.ne.u32 %p1, %r2, 0;
  setp.ne.u32 %p2, %r1, 0;
  mov.u32 %r3, memory;
  mapa.shared::cluster.u32 %r4, %r3, 1;
  or.pred %p3, %p1, %p2;
  @!%p3 st.shared::cluster.u32 [%r4], 9;
  )" + barrier +
         R"(
  ld.shared.u32 %r5, [memory];
  @%p1 st.global.u32 [%out], %r5;)";
}

TEST(BarriersTest, OrdersClusters) {
  for (const char *barrier :
       {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"}) {
    Emulation emulation(passInCluster(barrier), 32, 2, 2);
    EXPECT_EQ("", emulation.fault);
    EXPECT_EQ(9u, emulation.words[0]);
  }
  EXPECT_FAULT(
      "in no order with line",
      passInCluster("barrier.cluster.arrive.relaxed; barrier.cluster.wait;"),
      32, 2, 2);
}

TEST(BarriersTest, ClustersCountThreadsThatRun) {
  // Threads that end after they have arrived do not wait for the others.
  EXPECT_EQ("", Emulation(R"(
  barrier.cluster.arrive;
  setp.lt.u32 %p1, %r1, 8;
  @%p1 exit;
  barrier.cluster.wait;
  barrier.cluster.arrive;
  barrier.cluster.wait;)",
                          64, 4, 2)
                    .fault);
  EXPECT_FAULT("for the barrier of its cluster, where 63 threads have arrived",
               R"(
  setp.eq.u32 %p1, %r1, 32;
  @%p1 mbarrier.init.shared.b64 [memory], 1;
  @%p1 mbarrier.try_wait.parity.shared.b64 %p2, [memory], 0;
  barrier.cluster.arrive;
  barrier.cluster.wait;)");
}

TEST(BarriersTest, ClustersArriveAndWaitInTurn) {
  EXPECT_FAULT("barrier.cluster.wait without an arrive before",
               "barrier.cluster.wait;");
  EXPECT_FAULT("barrier.cluster.arrive follows another one without a wait",
               "barrier.cluster.arrive; barrier.cluster.arrive;");
}

//===----------------------------------------------------------------------===//
// Mbarriers
//===----------------------------------------------------------------------===//

/// An mbarrier for `count` arrivals in a kernel of two warps.
std::string withMbarrier(unsigned count, const std::string &body) {
  return R"(
  mov.u32 %r2, memory;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared::cta.b64 [%r2], )" +
         std::to_string(count) + R"(;
  bar.sync 0;)" +
         body;
}

TEST(BarriersTest, MbarriersCountArrivals) {
  // Thread 40 stores a word that thread 0 reads after all have arrived.
  std::string body = R"(
  setp.eq.u32 %p2, %r1, 40;
  @%p2 st.shared.u32 [memory+16], 11;
  mbarrier.arrive.shared.b64 %rd1, [memory];
  @%p1 bra $end;
$wait:
  mbarrier.try_wait.shared.b64 %p3, [memory], %rd1, 1000;
  @!%p3 bra $wait;
  ld.shared.u32 %r3, [memory+16];
  st.global.u32 [%out], %r3;
$end:)";
  EXPECT_EQ(11u, Emulation(withMbarrier(64, body)).words[0]);
  EXPECT_FAULT("for phase 0 of the mbarrier at 1024 of block (0, 0, 0), which "
               "waits for 1 of 65 arrivals and 0 bytes",
               withMbarrier(65, body));
  EXPECT_FAULT("1 arrivals at the mbarrier at 1024 of block (0, 0, 0), which "
               "waits for 0",
               withMbarrier(1, R"(
  @%p1 bra $end;
  mbarrier.expect_tx.shared.b64 [memory], 16;
  mbarrier.arrive.shared.b64 %rd1, [memory];
  mbarrier.arrive.shared.b64 %rd1, [memory];
$end:)"));
}

TEST(BarriersTest, MbarriersHaveParities) {
  // Two warps alternate: one increments a value that the other one reads.
  std::string body = R"(
  mov.u32 %r5, 0;
  @!%p1 mbarrier.init.shared.b64 [memory+8], 32;
  bar.sync 0;
  setp.ge.u32 %p2, %r1, 32;
$loop:
  and.b32 %r6, %r5, 1;
  @%p2 bra $consume;
  xor.b32 %r7, %r6, 1;
$produceWait:
  mbarrier.try_wait.parity.shared.b64 %p3, [memory+8], %r7;
  @!%p3 bra $produceWait;
  add.u32 %r8, %r5, 100;
  @!%p1 st.shared.u32 [memory+16], %r8;
  mbarrier.arrive.shared.b64 _, [memory];
  bra.uni $next;
$consume:
  mbarrier.test_wait.parity.shared.b64 %p3, [memory], %r6;
  @!%p3 bra $consume;
  ld.shared.u32 %r8, [memory+16];
  mul.wide.u32 %rd1, %r5, 4;
  add.s64 %rd1, %rd1, %out;
  setp.eq.u32 %p4, %r1, 32;
  @%p4 st.global.u32 [%rd1], %r8;
  mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [memory+8];
$next:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p3, %r5, 5;
  @%p3 bra $loop;)";
  Emulation emulation(withMbarrier(32, body));
  EXPECT_EQ("", emulation.fault);
  for (unsigned i = 0; i < 5; ++i)
    EXPECT_EQ(100 + i, emulation.words[i]);
  EXPECT_FAULT("a parity of 2",
               withMbarrier(1, "mbarrier.try_wait.parity.shared.b64 %p2, "
                               "[memory], 2;"));
}

TEST(BarriersTest, MbarriersKeepStates) {
  // A state has the number of missing arrivals. arrive_drop lowers the expected
  // number.
  Emulation emulation(withMbarrier(4, R"(
  @%p1 bra $end;
  mbarrier.arrive.noComplete.shared.b64 %rd1, [memory], 1;
  mbarrier.pending_count.b64 %r3, %rd1;
  st.global.u32 [%out], %r3;
  mbarrier.arrive_drop.shared.b64 %rd2, [memory];
  mbarrier.pending_count.b64 %r3, %rd2;
  st.global.u32 [%out+4], %r3;
  mbarrier.arrive.shared.b64 %rd3, [memory], 2;
  mbarrier.test_wait.shared.b64 %p2, [memory], %rd1;
  selp.u32 %r3, 1, 0, %p2;
  st.global.u32 [%out+8], %r3;
  mbarrier.arrive.shared.b64 %rd3, [memory];
  mbarrier.pending_count.b64 %r3, %rd3;
  st.global.u32 [%out+12], %r3;
  mbarrier.inval.shared.b64 [memory];
  st.shared.u32 [memory], 5;
$end:)"));
  EXPECT_EQ("", emulation.fault);
  EXPECT_EQ(4u, emulation.words[0]);
  EXPECT_EQ(3u, emulation.words[1]);
  EXPECT_EQ(1u, emulation.words[2]);
  EXPECT_EQ(3u, emulation.words[3]);
}

TEST(BarriersTest, MbarriersCountBytes) {
  std::string body = R"(
  @%p1 bra $end;
  mbarrier.arrive.expect_tx.shared.b64 %rd1, [memory], 32;
  mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [memory], BYTES;
  mbarrier.try_wait.parity.shared.b64 %p2, [memory], 0;
  st.global.u32 [%out], 1;
$end:)";
  auto with = [&](const std::string &bytes) {
    std::string result = withMbarrier(1, body);
    return result.replace(result.find("BYTES"), 5, bytes);
  };
  EXPECT_EQ(1u, Emulation(with("32")).words[0]);
  EXPECT_FAULT("which waits for 0 of 1 arrivals and 16 bytes", with("16"));
  EXPECT_FAULT("16 bytes more than expected have landed at the mbarrier at "
               "1024 of block (0, 0, 0)",
               with("48"));
}

TEST(BarriersTest, FindsMissingMbarriers) {
  EXPECT_FAULT(
      "an mbarrier at 1032 of block (0, 0, 0) has not been initialized",
      withMbarrier(1, "mbarrier.arrive.shared.b64 _, [memory+8];"));
  EXPECT_FAULT(
      "an mbarrier at 1024 of block (0, 0, 0) has not been initialized",
      withMbarrier(1, R"(
  @%p1 bra $end;
  mbarrier.inval.shared.b64 [memory];
  mbarrier.arrive.shared.b64 _, [memory];
$end:)"));
  EXPECT_FAULT("write of an mbarrier at 1024 of block (0, 0, 0)",
               withMbarrier(1, "st.shared.u32 [memory+4], 0;"));
  EXPECT_FAULT("read of an mbarrier at 1024 of block (0, 0, 0)",
               withMbarrier(1, "ld.shared.u64 %rd1, [memory];"));
  EXPECT_FAULT("write of an mbarrier at 1024 of block (0, 0, 0)",
               withMbarrier(1, "mbarrier.init.shared.b64 [memory], 1;"));
  EXPECT_FAULT("mbarrier for 0 arrivals, not 1 to 1048575",
               "mbarrier.init.shared.b64 [memory], 0;");
  EXPECT_FAULT("shared memory at 1028 of block (0, 0, 0) is not aligned to 8",
               "mbarrier.init.shared.b64 [memory+4], 1;");
}

/// This holds in every order of the warps.
TEST(BarriersTest, MbarriersAreInitializedBeforeTheyAreUsed) {
  std::string body = withMbarrier(64, "mbarrier.arrive.shared.b64 _, "
                                      "[memory];");
  EXPECT_EQ("", Emulation(body).fault);
  body.erase(body.find("bar.sync 0;"), 11);
  EXPECT_FAULT("an mbarrier at 1024 of block (0, 0, 0) is used in no order "
               "with line 16, which initializes it",
               body);
  // A relaxed arrival publishes what an earlier fence covers.
  const std::string cluster = R"(
  mov.u32 %r2, memory;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared::cta.b64 [%r2], 128;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait.acquire;
  mapa.shared::cluster.u32 %r4, %r2, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
  barrier.cluster.arrive;
  barrier.cluster.wait;)";
  EXPECT_EQ("", Emulation(cluster, 64, 2, 2).fault);
  std::string relaxed = cluster;
  relaxed.erase(relaxed.find("fence.mbarrier_init.release.cluster;"), 36);
  EXPECT_FAULT("which initializes it", relaxed, 64, 2, 2);
}

TEST(BarriersTest, MbarriersOfOtherBlocks) {
  // Block 1 waits until block 0 has arrived at its mbarrier.
  std::string body = R"(
  mov.u32 %r3, %cluster_ctarank;
  setp.eq.u32 %p2, %r3, 1;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mapa.shared::cluster.u32 %r4, %r2, 1;
  @%p2 bra $wait;
  st.shared::cluster.u32 [%r4+16], 13;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
  bra.uni $end;
$wait:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [memory], 0;
  ld.shared.u32 %r5, [memory+16];
  st.global.u32 [%out], %r5;
$end:
  barrier.cluster.arrive;
  barrier.cluster.wait;)";
  Emulation emulation(withMbarrier(1, body), 1, 2, 2);
  EXPECT_EQ("", emulation.fault);
  EXPECT_EQ(13u, emulation.words[0]);
  EXPECT_FAULT("where only shared memory of the own block is allowed",
               withMbarrier(1, R"(
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mapa.shared::cluster.u32 %r4, %r2, 1;
  mbarrier.arrive.shared::cta.b64 _, [%r4];
  barrier.cluster.arrive;
  barrier.cluster.wait;)"),
               1, 2, 2);
  EXPECT_FAULT("shared memory of block (0, 0, 0), which has ended",
               withMbarrier(1, R"(
  mov.u32 %r3, %cluster_ctarank;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra $end;
  mbarrier.expect_tx.shared.b64 [memory], 16;
  mapa.shared::cluster.u32 %r4, %r2, 0;
$again:
  bar.sync 0;
  mbarrier.expect_tx.shared::cluster.b64 [%r4], 16;
  bra.uni $again;
$end:)"),
               1, 2, 2);
}

TEST(BarriersTest, RefusesUnknownForms) {
  auto refuse = [](const std::string &body) {
    Machine machine;
    try {
      (void)compile(machine, makeKernel(body));
    } catch (const std::runtime_error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ("line 13: the emulator does not know bar with .sideways",
            refuse("bar.sideways 0;"));
  EXPECT_EQ(
      "line 13: an arrival with .shared::cluster has no state, expected _",
      refuse("mbarrier.arrive.shared::cluster.b64 %rd1, [memory];"));
  EXPECT_EQ("", refuse("mbarrier.arrive.shared::cluster.b64 _, [memory];"));
  EXPECT_EQ("line 13: bar has 1 operands here, expected 2",
            refuse("bar.arrive 0;"));
  EXPECT_EQ("line 13: bar has 3 operands here, expected 1 or 2",
            refuse("bar.sync 0, 32, 32;"));
  EXPECT_EQ("line 13: bar must be .sync, .arrive or .red", refuse("bar 0;"));
  EXPECT_EQ("line 13: bar.red must be .popc.u32, .and.pred or .or.pred",
            refuse("bar.red.and.u32 %r1, 0, %p1;"));
  EXPECT_EQ("line 13: operand 2 of bar must be a predicate or a number",
            refuse("bar.red.popc.u32 %r1, 0, %r2;"));
  EXPECT_EQ("line 13: barrier.cluster must be .arrive or .wait",
            refuse("barrier.cluster.aligned;"));
}

} // namespace
