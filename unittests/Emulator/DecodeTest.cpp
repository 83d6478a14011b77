//===- DecodeTest.cpp - Opcodes that are known ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Instruction.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

ParsedKernel makeKernel(std::vector<std::string> opcode) {
  ParsedKernel kernel;
  kernel.instructions.push_back({7, {}, std::move(opcode), {}});
  return kernel;
}

TEST(DecodeTest, NamesWhatIsUnknown) {
  try {
    (void)decode(makeKernel({"cp", "reduce", "async", "bulk"}));
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ("line 7: the emulator does not know cp.reduce.async.bulk",
                 error.what());
  }
}

} // namespace
