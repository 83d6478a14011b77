//===- LoadStoreTest.cpp - Loads, stores and addresses --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compute.h"

using namespace fuse::emulator;

namespace {

/// The fault of a thread without its location, or nothing. The kernel has 64
/// bytes of shared and 16 bytes of local memory.
std::string fail(const std::string &body) {
  std::string text = getFault([&] {
    (void)compute(".shared .align 16 .b8 s[64]; .local .align 16 .b8 l[16];" +
                  body);
  });
  size_t found = text.find("): ");
  return found == text.npos ? text : text.substr(found + 3);
}

const std::string kSpaces = ".shared .align 16 .b8 s[64];"
                            ".local .align 16 .b8 l[16];";

TEST(LoadStoreTest, LoadsWhatItStored) {
  for (const char *space : {"shared", "local"}) {
    std::string name(1, space[0]), in = std::string(".") + space;
    EXPECT_EQ(0x123456789abcdef0u,
              compute(kSpaces + "st" + in + ".v2.b32 [" + name +
                          "+8], {%r1, %r2}; ld" + in + ".b64 %rd0, [" + name +
                          "+8];",
                      {0x9abcdef0, 0x12345678}));
    // Stores through the generic address.
    EXPECT_EQ(7u, compute(kSpaces + "mov.b64 %rd1, " + name + "; cvta" + in +
                          ".u64 %rd2, %rd1; st.b32 [%rd2+4], 7; ld" + in +
                          ".u32 %r0, [" + name +
                          "+4];"
                          "cvt.u64.u32 %rd0, %r0;"));
  }
}

TEST(LoadStoreTest, WidensWithTheSign) {
  const std::string text = kSpaces + "st.shared.b32 [s], 0x80;";
  EXPECT_EQ(0xffffff80u, compute(text + "ld.shared.s8 %r0, [s];"
                                        "cvt.u64.u32 %rd0, %r0;"));
  EXPECT_EQ(0x80u, compute(text + "ld.shared.u8 %r0, [s];"
                                  "cvt.u64.u32 %rd0, %r0;"));
  EXPECT_EQ(uint64_t(-128), compute(text + "ld.shared.s8 %rd0, [s];"));
  // Only the lowest bits are stored.
  EXPECT_EQ(0xffffff01u, compute(kSpaces + "st.shared.b8 [s], %r1;"
                                           "ld.shared.b32 %r0, [s];"
                                           "cvt.u64.u32 %rd0, %r0;",
                                 {0x201}));
}

TEST(LoadStoreTest, ReadsParameters) {
  Machine machine;
  uint64_t out = machine.allocate(16);
  launch(machine, R"(.visible .entry k(.param .u64 out, .param .u64 value) {
  .reg .b64 %rd<5>; .reg .pred p;
  ld.param.u64 %rd0, [out];
  mov.b64 %rd1, value; ld.param.u64 %rd2, [%rd1];
  cvta.param.u64 %rd3, %rd1; ld.u64 %rd4, [%rd3];
  st.global.v2.b64 [%rd0], {%rd2, %rd4};
})",
         makeShape(1, 1), {out, 77});
  machine.synchronize();
  EXPECT_EQ(77u, read<uint64_t>(out));
  EXPECT_EQ(77u, read<uint64_t>(out + 8));
  EXPECT_EQ("line 7: parameters are read-only",
            refuse("st.param.b64 [out], %rd1;"));
  EXPECT_EQ("parameters are read-only",
            fail("mov.b64 %rd1, out; cvta.param.u64 %rd1, %rd1;"
                 "st.b64 [%rd1], 0;"));
}

TEST(LoadStoreTest, ReadsVariables) {
  Machine machine;
  uint64_t out = machine.allocate(4);
  launch(machine, R"(.const .align 4 .u32 table[3] = {5, 6, 7};
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [out];
  ld.const.u32 %r0, [table+8];
  st.global.b32 [%rd0], %r0;
})",
         makeShape(1, 1), {out});
  machine.synchronize();
  EXPECT_EQ(7u, read<uint32_t>(out));
}

TEST(LoadStoreTest, FindsWrongAddresses) {
  EXPECT_EQ("", fail("ld.shared.b32 %r0, [s+60];"));
  EXPECT_NE("", fail("ld.shared.b32 %r0, [s+64];"));
  EXPECT_NE("", fail("ld.shared.b32 %r0, [s+-4];"));
  EXPECT_NE("", fail("ld.shared.b32 %r0, [s+2];"));
  EXPECT_EQ("", fail("ld.shared.v4.b32 {%r0, %r1, %r2, _}, [s+16];"));
  EXPECT_NE("", fail("ld.shared.v4.b32 {%r0, %r1, %r2, _}, [s+8];"));
  EXPECT_EQ("", fail("ld.local.b32 %r0, [l+12];"));
  EXPECT_EQ("4 bytes at 0x10 of local memory, which has 16",
            fail("ld.local.b32 %r0, [l+16];"));
  EXPECT_EQ("local memory at 0x2 is not aligned to 4",
            fail("st.local.b32 [l+2], 0;"));
  EXPECT_EQ("8 bytes at 0x1 of the parameters, which has 8",
            fail("ld.param.b64 %rd0, [out+1];"));
  // An address of another space.
  EXPECT_EQ("0x7f0000000400 is not an address of shared memory",
            fail("mov.b64 %rd1, s; cvta.shared.u64 %rd1, %rd1;"
                 "ld.shared.b32 %r0, [%rd1];"));
}

TEST(LoadStoreTest, DistinguishesSpaces) {
  const std::string text = kSpaces + "mov.b64 %rd1, s; mov.b64 %rd2, l;"
                                     "cvta.shared.u64 %rd1, %rd1;"
                                     "cvta.local.u64 %rd2, %rd2;"
                                     "ld.param.u64 %rd3, [out];";
  auto is = [&](const char *space, const char *address) {
    return compute(text + "isspacep." + space + " %p0, " + address +
                   "; selp.b64 %rd0, 1, 0, %p0;") != 0;
  };
  EXPECT_TRUE(is("shared", "%rd1"));
  EXPECT_FALSE(is("shared", "%rd2"));
  EXPECT_TRUE(is("local", "%rd2"));
  EXPECT_TRUE(is("global", "%rd3"));
  EXPECT_FALSE(is("global", "%rd1"));
  EXPECT_EQ(1024u, compute(text + "cvta.to.shared.u64 %rd0, %rd1;"));
}

TEST(LoadStoreTest, FindsOtherBlocksOfACluster) {
  const char *text = R"(.visible .entry k(.param .u64 out, .param .u64 rank) {
  .reg .b64 %rd<5>; .reg .b32 %r<5>; .shared .b32 s;
  ld.param.u32 %r1, [rank];
  mov.u32 %r0, %cluster_ctarank;
  st.shared.b32 [s], %r0;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.b64 %rd1, s;
  mapa.shared::cluster.u64 %rd2, %rd1, %r1;
  ld.shared::cluster.b32 %r2, [%rd2];
  getctarank.shared::cluster.u64 %r3, %rd2;
  ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd3, %r0, 8; add.s64 %rd0, %rd0, %rd3;
  st.global.v2.b32 [%rd0], {%r2, %r3};
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
})";
  LaunchShape shape;
  shape.grid = shape.cluster = {2, 1, 1};
  auto run = [&](uint64_t rank, const std::string &text) {
    Machine machine;
    uint64_t out = machine.allocate(16);
    launch(machine, text, shape, {out, rank});
    std::string fault = getFault([&] { machine.synchronize(); });
    if (!fault.empty())
      return fault.substr(fault.find("): ") + 3);
    return std::to_string(read<uint32_t>(out)) +
           std::to_string(read<uint32_t>(out + 4)) +
           std::to_string(read<uint32_t>(out + 8)) +
           std::to_string(read<uint32_t>(out + 12));
  };
  EXPECT_EQ("1111", run(1, text));
  EXPECT_EQ("0000", run(0, text));
  // Other ranks may be computed but not accessed.
  const std::string none = " is not in a block of a cluster of 2";
  for (uint32_t rank : {2u, 254u, 255u, 4294967200u})
    EXPECT_NE(std::string::npos, run(rank, text).find(none)) << rank;
  std::string unused = text;
  unused.insert(unused.find("  mapa"),
                "  mapa.shared::cluster.u64 %rd2, %rd1, 4294967200;\n");
  EXPECT_EQ("1111", run(1, unused));
  std::string own = text;
  own.replace(own.find("ld.shared::cluster"), 18, "ld.shared");
  EXPECT_NE(std::string::npos,
            run(1, own).find("shared memory of another block"));
}

TEST(LoadStoreTest, IgnoresCacheHints) {
  EXPECT_EQ("", refuse("ld.param.u64 %rd1, [out];"
                       "createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;"
                       "ld.global.nc.L1::no_allocate.L2::256B.b32 %r0, [%rd1];"
                       "ld.global.L1::no_allocate.L2::cache_hint.b32 %r0, "
                       "[%rd1], %rd2;"
                       "st.global.cs.b32 [%rd1], 0;"
                       "prefetch.global.L2 [%rd1]; fence.proxy.async.global;"
                       "fence.acq_rel.gpu; membar.gl;"));
  EXPECT_EQ("line 7: the emulator does not know ld with .L3",
            refuse("ld.global.L3.b32 %r0, [%rd1];"));
  EXPECT_EQ("line 7: ld has 2 operands here, expected 3",
            refuse("ld.global.L2::cache_hint.b32 %r0, [%rd1];"));
}

TEST(LoadStoreTest, ChecksForms) {
  EXPECT_EQ("line 7: expected registers of at least 32 bits for .b32",
            refuse("ld.shared.b32 %h0, [%rd1];"));
  EXPECT_EQ("line 7: a vector of 3, expected 4",
            refuse("ld.global.v4.b32 {%r0, %r1, %r2}, [%rd1];"));
  EXPECT_EQ("line 7: the emulator does not know ld of .b64",
            refuse("ld.global.v4.b64 {%rd0, %rd1, %rd2, %rd3}, [%rd4];"));
  EXPECT_EQ("line 7: operand 1 of ld must be an address in brackets",
            refuse("ld.global.b32 %r0, %rd1;"));
}

} // namespace
