//===- MmaTest.cpp - Matrix products of one warp --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"
#include "MatrixCase.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

/// Runs one warp. Its shared memory has 16 rows of A and eight rows of B, 32
/// bytes each. Each thread stores eight registers %s.
std::vector<uint32_t> runWarp(const std::vector<uint8_t> &in,
                              const std::string &body) {
  std::string text = R"(
.visible .entry test(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<16>, %s<8>, %a<4>, %b<2>, %v<4>;
  .reg .b64 %rd<8>;
  .shared .align 16 .b8 memory[2048];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 32;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, memory;
  mad.lo.u32 %r3, %r1, 32, %r2;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd4];
  st.shared.v4.u32 [%r3], {%v0, %v1, %v2, %v3};
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd4+16];
  st.shared.v4.u32 [%r3+16], {%v0, %v1, %v2, %v3};
  bar.warp.sync -1;
  // Rows of four matrices: the lower rows first, then the next half of K.
  and.b32 %r4, %r1, 15;
  shr.u32 %r5, %r1, 4;
  shl.b32 %r4, %r4, 5;
  shl.b32 %r5, %r5, 4;
  add.u32 %r6, %r2, %r4;
  add.u32 %r6, %r6, %r5;
  // Rows of two matrices.
  and.b32 %r4, %r1, 7;
  bfe.u32 %r5, %r1, 3, 1;
  shl.b32 %r4, %r4, 5;
  shl.b32 %r5, %r5, 4;
  add.u32 %r7, %r2, %r4;
  add.u32 %r7, %r7, %r5;
)" + body;
  for (unsigned i = 0; i < 8; ++i)
    text += "  st.global.u32 [%rd4+" + std::to_string(4 * i) + "], %s" +
            std::to_string(i) + ";\n";
  text += "  ret;\n}";
  Machine machine;
  uint64_t from = machine.allocate(1024), to = machine.allocate(1024);
  std::memcpy(reinterpret_cast<void *>(from), in.data(), in.size());
  launch(machine, text, makeShape(1, 32), {from, to});
  EXPECT_EQ("", getFault([&] { machine.synchronize(); }));
  std::vector<uint32_t> words(256);
  std::memcpy(words.data(), reinterpret_cast<void *>(to), 1024);
  return words;
}

const char *kStoreThere = "  add.s64 %rd4, %rd2, %rd3;\n";

TEST(MmaTest, Multiplies) {
  const std::array<std::string, 3> types[] = {
      {"f32", "bf16", "bf16"}, {"f32", "f16", "f16"},   {"f16", "f16", "f16"},
      {"f32", "tf32", "tf32"}, {"f32", "e4m3", "e5m2"}, {"s32", "s8", "u8"}};
  for (const auto &[sum, a, b] : types) {
    unsigned width = getBytes(a);
    std::vector<uint8_t> in(1024);
    for (unsigned row = 0; row < 24; ++row)
      for (unsigned k = 0; k < 32 / width; ++k) {
        bool isB = row >= 16;
        const std::string &type = isB ? b : a;
        uint32_t bits = encode(getNumber(isB ? row - 16 : row, k, type), type);
        std::memcpy(&in[row * 32 + k * width], &bits, width);
      }
    MatrixCase test;
    test.columns = 8;
    test.sum = sum;
    test.a = a;
    test.b = b;
    unsigned count = countRegisters(test);
    std::string sums = printRegisters(count);
    std::vector<uint32_t> words = runWarp(
        in,
        "  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, "
        "[%r6];\n  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%b0, %b1}, "
        "[%r7+512];\n" +
            setSums(test, encodeSum(5, test) * (sum == "f16" ? 0x10001 : 1)) +
            "  mma.sync.aligned.m16n8k" + std::to_string(32 / width) +
            ".row.col." + sum + "." + a + "." + b + "." + sum + " " + sums +
            ", {%a0, %a1, %a2, %a3}, {%b0, %b1}, " + sums + ";\n" +
            kStoreThere);
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned column = 0; column < 8; ++column) {
        unsigned thread = row % 8 * 4 + column / 2;
        bool isHalf = sum == "f16";
        uint32_t word =
            words[thread * 8 + (isHalf ? row / 8 : row / 8 * 2 + column % 2)];
        if (isHalf)
          word = word >> column % 2 * 16 & 0xffff;
        EXPECT_EQ(encodeSum(getSum(test, row, column, 5), test), word)
            << sum << " " << a << " " << row << " " << column;
      }
  }
}

TEST(MmaTest, MovesMatrices) {
  // Each half has the value row * 16 + column.
  std::vector<uint8_t> in(1024);
  for (unsigned i = 0; i < 512; ++i)
    std::memcpy(&in[2 * i], &i, 2);
  auto get = [](unsigned row, unsigned column) { return row * 16 + column; };
  std::vector<uint32_t> words = runWarp(in, std::string(R"(
  ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%s0}, [%r7];
  ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%s1, %s2}, [%r7];
  stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r7+512], {%s1, %s2};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%s3, %s4}, [%r7+512];
)") + kStoreThere);
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned row = lane / 4, column = lane % 4 * 2;
    const uint32_t *found = &words[lane * 8];
    EXPECT_EQ(get(column, row) | get(column + 1, row) << 16, found[0]);
    for (unsigned half : {0u, 1u}) {
      EXPECT_EQ(get(row, half * 8 + column) | get(row, half * 8 + column + 1)
                                                  << 16,
                found[1 + half]);
      EXPECT_EQ(get(column, half * 8 + row) | get(column + 1, half * 8 + row)
                                                  << 16,
                found[3 + half]);
    }
  }
}

} // namespace
