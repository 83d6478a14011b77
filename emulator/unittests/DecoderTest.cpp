//===- DecoderTest.cpp - Unknown opcodes and wrong operands ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

ParsedKernel makeKernel(std::vector<std::string> opcode) {
  ParsedKernel kernel;
  kernel.instructions.push_back({7, {}, std::move(opcode), {}});
  return kernel;
}

TEST(DecoderTest, NamesUnknownParts) {
  try {
    (void)decode(makeKernel({"cp", "reduce", "async", "bulk"}));
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ("line 7: the emulator does not know cp.reduce.async.bulk",
                 error.what());
  }
}

/// The error that decoding the only instruction of a kernel reports. It is not
/// executed.
std::string refuse(const std::string &instruction) {
  Machine machine;
  try {
    (void)compile(machine,
                  ".visible .entry k() {\n"
                  ".reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<3>;\n" +
                      instruction + "\nret;\n}");
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(DecoderTest, ChecksKindsOfOperands) {
  // An address becomes two values, so a missing bracket would shift the
  // operands after it.
  EXPECT_EQ("", refuse("mbarrier.inval.shared.b64 [%r1];"));
  EXPECT_EQ("line 6: operand 0 of mbarrier must be an address in brackets",
            refuse("mbarrier.inval.shared.b64 %r1;"));
  EXPECT_EQ("line 6: operand 0 of mbarrier must be a register of 64 bits or _",
            refuse("mbarrier.arrive.shared.b64 3, [%r1];"));
  EXPECT_EQ("line 6: mbarrier has 1 operands here, expected 2 or 3",
            refuse("mbarrier.arrive.shared.b64 [%r1];"));
  // A parity has 32 bits, a state has 64.
  EXPECT_EQ("", refuse("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;"));
  EXPECT_EQ("line 6: operand 2 of mbarrier must be a register of 64 bits or "
            "a number",
            refuse("mbarrier.try_wait.shared.b64 %p1, [%r1], %r2;"));
  const std::string copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                           ".mbarrier::complete_tx::bytes [%r1], ";
  EXPECT_EQ("", refuse(copy + "[%rd1, {%r1, %r2}], [%r1];"));
  EXPECT_EQ("line 6: operand 1 of cp must be an address with 2 coordinates",
            refuse(copy + "[%rd1, {%r1}], [%r1];"));
  EXPECT_EQ("line 6: operand 1 of cp must be an address with 2 coordinates",
            refuse(copy + "[%rd1], [%r1];"));
  const std::string matrix = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 ";
  EXPECT_EQ("", refuse(matrix + "{%r1}, [%r2];"));
  EXPECT_EQ("", refuse(matrix + "%r1, [%r2];"));
  EXPECT_EQ("line 6: operand 0 of ldmatrix must be a vector of 1, each a "
            "register of 32 bits",
            refuse(matrix + "{%r0, %r1}, [%r2];"));
  EXPECT_EQ("line 6: operand 1 of ldmatrix must be an address in brackets",
            refuse(matrix + "{%r1}, %r2;"));
  const std::string product =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%r0, %r1, %r2, %r2}, %rd1, ";
  EXPECT_EQ("", refuse(product + "%rd2, 1, 1, 1, 0, 0;"));
  EXPECT_EQ(
      "line 6: operand 2 of wgmma must be a register of 64 bits or a number",
      refuse(product + "[%rd2], 1, 1, 1, 0, 0;"));
}

} // namespace
