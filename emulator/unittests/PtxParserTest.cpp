//===- PtxParserTest.cpp - The parser of PTX text -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ptx/Ptx.h"

#include <gtest/gtest.h>

using namespace fuse::emulator;

namespace {

constexpr uint64_t kVariables = 0x10000;

/// Variables are allocated one after another from kVariables on.
ParsedModule parse(const std::string &text,
                   std::vector<std::vector<uint8_t>> *variables = nullptr) {
  uint64_t next = kVariables;
  return parsePtx(".version 8.6\n.target sm_90a\n.address_size 64\n" + text,
                  [&](const std::vector<uint8_t> &bytes, unsigned alignment) {
                    next = (next + alignment - 1) / alignment * alignment;
                    uint64_t address = next;
                    next += bytes.size();
                    if (variables)
                      variables->push_back(bytes);
                    return address;
                  });
}

ParsedKernel parseBody(const std::string &body) {
  return parse(".visible .entry k()\n{\n" + body + "}\n").kernels.at("k");
}

/// The error of the parser. The body begins at line 6.
std::string parseError(const std::string &body) {
  try {
    (void)parseBody(body);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(PtxParserTest, ReadsHeaderAndParameters) {
  ParsedModule module = parse(R"(
.visible .entry k(
  .param .u64 .ptr .global .align 16 a,
  .param .f32 b,
  .param .align 64 .b8 map[128],
  .param .u16 c
)
.reqntid 384, 1, 1
.minnctapersm 1
.reqnctapercluster 2
.explicitcluster
{ ret; })");
  EXPECT_EQ(86u, module.version);
  EXPECT_EQ("sm_90a", module.target);
  const ParsedKernel &kernel = module.kernels.at("k");
  ASSERT_EQ(4u, kernel.parameters.size());
  EXPECT_EQ(0u, kernel.parameters[0].offset);
  EXPECT_EQ(8u, kernel.parameters[1].offset);
  EXPECT_EQ(64u, kernel.parameters[2].offset);
  EXPECT_EQ(128u, kernel.parameters[2].bytes);
  EXPECT_EQ(192u, kernel.parameters[3].offset);
  EXPECT_EQ(194u, kernel.parameterBytes);
  EXPECT_EQ((std::array<unsigned, 3>{384, 1, 1}), kernel.requiredThreads);
  EXPECT_EQ((std::array<unsigned, 3>{2, 1, 1}), kernel.requiredCluster);
  EXPECT_EQ(1u, kernel.minBlocks);
}

TEST(PtxParserTest, ReadsOperands) {
  ParsedKernel kernel = parseBody(R"(
.reg .pred %p<3>; .reg .b32 %r<20>, %r1<4>, x; .reg .b64 %rd<2>;
@!%p1 setp.lt.s32 %p0|%p2, %r13, !%p1;
ld.shared.v4.b32 {%r0, _, x, %r19}, [%rd1+-16];
cp.async.bulk.tensor.2d.shared::cluster.global.tile [%rd0], [%rd1, {%r2, 7}];
mov.u32 %r0, %tid.y;
)");
  ASSERT_EQ(5u, kernel.instructions.size());
  const ParsedInstruction &first = kernel.instructions[0];
  EXPECT_EQ(8u, first.line);
  EXPECT_EQ((std::vector<std::string>{"setp", "lt", "s32"}), first.opcode);
  EXPECT_TRUE(first.guard.isNegated);
  EXPECT_EQ(1u, first.guard.index);
  ASSERT_EQ(4u, first.operands.size());
  EXPECT_EQ(0u, first.operands[0].index);
  EXPECT_EQ(1u, first.operands[0].value);
  EXPECT_EQ(2u, first.operands[1].index);
  // A range whose name ends with digits is distinguished from a longer number.
  EXPECT_EQ(3u + 20 + 3, first.operands[2].index);
  EXPECT_TRUE(first.operands[3].isNegated);
  const ParsedInstruction &load = kernel.instructions[1];
  ASSERT_EQ(4u, load.operands[0].parts.size());
  EXPECT_EQ(Operand::Kind::None, load.operands[0].parts[1].kind);
  EXPECT_EQ(32u, load.operands[0].parts[2].value);
  EXPECT_EQ(Operand::Kind::Address, load.operands[1].kind);
  EXPECT_EQ(uint64_t(-16), load.operands[1].value);
  EXPECT_EQ(64u, load.operands[1].parts[0].value);
  const ParsedInstruction &copy = kernel.instructions[2];
  EXPECT_EQ("shared::cluster", copy.opcode[5]);
  ASSERT_EQ(3u, copy.operands[1].parts.size());
  EXPECT_EQ(7u, copy.operands[1].parts[2].value);
  EXPECT_EQ(Operand::Kind::Special, kernel.instructions[3].operands[1].kind);
  EXPECT_EQ("ret", kernel.instructions[4].opcode[0]);
}

TEST(PtxParserTest, RefusesUndeclaredNames) {
  EXPECT_EQ("line 6: there is no register '%r2'",
            parseError(".reg .b32 %r<2>; mov.b32 %r0, %r2;\n"));
  EXPECT_EQ("line 6: there is no 'there'", parseError("bra there;\n"));
  EXPECT_EQ("line 6: there is no 'x'",
            parseError(".reg .b32 r; ld.shared.b32 r, [x+4];\n"));
  EXPECT_EQ("line 6: 'r' is not a predicate",
            parseError(".reg .b32 r; @r ret;\n"));
  EXPECT_EQ("line 6: 'r' is declared twice",
            parseError(".reg .b32 r; .reg .b64 r;\n"));
  EXPECT_EQ("line 6: functions are not called in the emulator",
            parseError("call f;\n"));
}

TEST(PtxParserTest, SeesNamesInTheirBlocks) {
  ParsedKernel kernel = parseBody(R"(
.reg .pred p;
{ .reg .pred p; wait: @p bra wait; }
{ .reg .pred p, q; wait: @p bra wait; @q bra end; }
@p bra end;
end: ret;
)");
  ASSERT_EQ(6u, kernel.instructions.size());
  EXPECT_EQ(0u, kernel.instructions[0].operands[0].index);
  EXPECT_EQ(1u, kernel.instructions[0].guard.index);
  EXPECT_EQ(1u, kernel.instructions[1].operands[0].index);
  EXPECT_EQ(2u, kernel.instructions[1].guard.index);
  EXPECT_EQ(4u, kernel.instructions[2].operands[0].index);
  EXPECT_EQ(0u, kernel.instructions[3].guard.index);
  EXPECT_EQ(4u, kernel.instructions[3].operands[0].index);
  // The label is not visible outside.
  EXPECT_EQ("line 6: there is no 'in'", parseError("{ in: } bra in;\n"));
}

TEST(PtxParserTest, ReadsTargetsOfTables) {
  ParsedKernel kernel = parseBody(R"(
.reg .b32 r;
t: .branchtargets a, b;
brx.idx r, t;
a: b: ret;
)");
  const Operand &table = kernel.instructions[0].operands[1];
  ASSERT_EQ(2u, table.parts.size());
  EXPECT_EQ(1u, table.parts[1].index);
  EXPECT_EQ("line 7: there is no 'b'",
            parseError("t: .branchtargets b;\n.reg .b32 r; brx.idx r, t;\n"));
}

TEST(PtxParserTest, ReadsNumbers) {
  ParsedKernel kernel = parseBody(R"(
.reg .b32 r; .reg .b64 d;
mov.b32 r, -1; mov.b32 r, 0x1F; mov.b32 r, 0b101; mov.b32 r, 017;
add.f32 r, 0f3F800000, 1.0; add.f64 d, 0d3FF0000000000000, 2.5e-1;
mov.b32 r, (1 + 2) * 4 - 8 / 2; mov.b64 d, 1 << 40 | 1; mov.b32 r, ~0;
)");
  auto value = [&](size_t i, size_t operand = 1) {
    return kernel.instructions[i].operands[operand].value;
  };
  EXPECT_EQ(~uint64_t(0), value(0));
  EXPECT_EQ(31u, value(1));
  EXPECT_EQ(5u, value(2));
  EXPECT_EQ(15u, value(3));
  EXPECT_EQ(0x3f800000u, value(4, 1));
  EXPECT_EQ(0x3f800000u, value(4, 2));
  EXPECT_EQ(0x3ff0000000000000u, value(5, 1));
  EXPECT_EQ(0x3fd0000000000000u, value(5, 2));
  EXPECT_EQ(8u, value(6));
  EXPECT_EQ((uint64_t(1) << 40) + 1, value(7));
  EXPECT_EQ(~uint64_t(0), value(8));
  for (const char *wrong : {"0f3F80", "0x", "12ab", "1 / 0", "0b2", "08"})
    EXPECT_NE(
        "", parseError(".reg .b32 r; mov.b32 r, " + std::string(wrong) + ";\n"))
        << wrong;
}

TEST(PtxParserTest, PlacesSharedMemory) {
  ParsedModule module = parse(R"(
.extern .shared .align 1024 .b8 ring[];
.shared .align 8 .b8 unused[512];
.shared .align 16 .b8 used[20];
.visible .entry one() { .reg .b64 r; .shared .b32 own; .local .b32 l[3];
  mov.b64 r, ring; mov.b64 r, used; mov.b64 r, own; st.shared.b8 [ring+4], 0;
}
.visible .entry two() { .reg .b64 r; mov.b64 r, ring; })");
  const ParsedKernel &one = module.kernels.at("one");
  // Dynamic memory follows the static variables.
  EXPECT_EQ(2048u, one.dynamicShared);
  EXPECT_EQ(2048u, one.instructions[0].operands[1].value);
  EXPECT_EQ(kSharedBase + 16, one.instructions[1].operands[1].value);
  EXPECT_EQ(kSharedBase, one.instructions[2].operands[1].value);
  EXPECT_EQ(2052u, one.instructions[3].operands[0].value);
  EXPECT_EQ(12u, one.localBytes);
  EXPECT_EQ(kSharedBase, module.kernels.at("two").dynamicShared);
  EXPECT_EQ("line 6: no memory for the 2097152 bytes of 'x', there are 1048576",
            parseError(".shared .b8 x[2097152];\n"));
}

TEST(PtxParserTest, FillsVariables) {
  std::vector<std::vector<uint8_t>> bytes;
  ParsedModule module = parse(R"(
.global .align 4 .b8 text[6] = {72, 0x69};
.visible .const .f32 one[2][1] = {{1.0}, {0f40000000}};
.global .u64 pointer = text+2;)",
                              &bytes);
  ASSERT_EQ(3u, module.variables.size());
  EXPECT_EQ("text", module.variables[0].name);
  EXPECT_EQ(kVariables, module.variables[0].address);
  EXPECT_EQ((std::vector<uint8_t>{72, 0x69, 0, 0, 0, 0}), bytes[0]);
  EXPECT_EQ((std::vector<uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}), bytes[1]);
  EXPECT_EQ((std::vector<uint8_t>{2, 0, 1, 0, 0, 0, 0, 0}), bytes[2]);
  EXPECT_THROW(parse(".global .b8 x[1] = {1, 2};"), std::runtime_error);
}

TEST(PtxParserTest, SkipsDirectivesWithoutEffect) {
  ParsedKernel kernel = parseBody(R"(
// .reg .b32
/* {
*/ .pragma "nounroll"; .loc 1 2 3, function_name $x, inlined_at 1 2 3
.file 1 "a.cu"
here: .loc 1 2 3
;; bra.uni here;
)");
  EXPECT_EQ(2u, kernel.instructions.size());
  EXPECT_EQ(0u, kernel.instructions[0].operands[0].index);
  EXPECT_EQ(12u, kernel.instructions[0].line);
  EXPECT_EQ("line 6: the comment does not end", parseError("/* ret; "));
}

/// Text that ends at any position gives an error with its line, or is complete.
TEST(PtxParserTest, EndsAnywhere) {
  const std::string text = R"(.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 ring[];
.global .align 4 .b8 g[2] = {1, 2};
.visible .entry k(.param .u64 .ptr .global .align 16 a)
.maxntid 128
{ .reg .pred %p<2>; .reg .b32 %r<3>; // text
  @%p1 ld.shared.v2.b32 {%r0, %r1}, [ring+4];
  { loop: @!%p0 bra loop; /* text */ }
  mov.b32 %r2, (1 + 0x2) * 0f3F800000; }
)";
  for (size_t size = 0; size < text.size(); ++size) {
    try {
      auto allocate = [](const std::vector<uint8_t> &, unsigned) {
        return kVariables;
      };
      EXPECT_TRUE(parsePtx(text.substr(0, size), allocate).kernels.empty());
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(0u, std::string(error.what()).find("line ")) << error.what();
    }
  }
  // Limited recursion protects the stack.
  EXPECT_NE("", parseError(std::string(100000, '{')));
  EXPECT_NE("",
            parseError(".reg .b32 r; mov.b32 r, " + std::string(100000, '(')));
  EXPECT_NE("",
            parseError(".reg .b32 r; mov.b32 r, " + std::string(100000, '-')));
}

} // namespace
