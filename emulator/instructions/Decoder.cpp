//===- Decoder.cpp - From parsed to decoded instructions ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/Decoder.h"

#include <algorithm>
#include <unordered_map>

using namespace fuse;
using namespace fuse::emulator;

static const std::unordered_map<std::string, Decode> &getDecoders() {
  static const auto decoders = [] {
    std::unordered_map<std::string, Decode> result;
    for (const Opcode *table :
         {kArithmetic, kFloatMath, kConversions, kSelectCompareMove, kLoadStore,
          kAtomics, kControl, kBarriers, kAsyncCopies, kMma, kWgmma})
      for (; table->name; ++table)
        result.emplace(table->name, table->decode);
    return result;
  }();
  return decoders;
}

/// The decoder whose name matches the most parts of the opcode.
static Decode findDecoder(const std::vector<std::string> &opcode) {
  const auto &decoders = getDecoders();
  for (size_t count = std::min<size_t>(opcode.size(), 4); count > 0; --count) {
    std::string name = opcode[0];
    for (size_t i = 1; i < count; ++i)
      name += "." + opcode[i];
    if (auto found = decoders.find(name); found != decoders.end())
      return found->second;
  }
  return nullptr;
}

static void flatten(const Operand &operand, std::vector<Value> &values) {
  switch (operand.kind) {
  case Operand::Kind::None:
    values.emplace_back();
    return;
  case Operand::Kind::Register:
    values.push_back({true, operand.isNegated, operand.index, 0});
    return;
  case Operand::Kind::Immediate:
    values.push_back({false, false, 0, operand.value});
    return;
  case Operand::Kind::Special:
  case Operand::Kind::Label:
    values.push_back({false, false, 0, operand.index});
    return;
  case Operand::Kind::Address:
    flatten(operand.parts.at(0), values);
    values.push_back({false, false, 0, operand.value});
    for (size_t i = 1; i < operand.parts.size(); ++i)
      flatten(operand.parts[i], values);
    return;
  case Operand::Kind::Vector:
    for (const Operand &part : operand.parts)
      flatten(part, values);
    return;
  }
}

std::shared_ptr<const Program> emulator::decode(ParsedKernel kernel) {
  auto program = std::make_shared<Program>();
  for (const ParsedInstruction &parsed : kernel.instructions) {
    Instruction instruction;
    instruction.line = parsed.line;
    for (const std::string &part : parsed.opcode)
      instruction.opcode += (instruction.opcode.empty() ? "" : ".") + part;
    if (parsed.guard.kind == Operand::Kind::Register) {
      instruction.hasGuard = true;
      instruction.guard = {true, parsed.guard.isNegated, parsed.guard.index, 0};
    }
    for (const Operand &operand : parsed.operands)
      flatten(operand, instruction.operands);
    std::string where = "line " + std::to_string(parsed.line) + ": ";
    Decode decoder = findDecoder(parsed.opcode);
    if (!decoder)
      throw std::runtime_error(where + "the emulator does not know " +
                               instruction.opcode);
    try {
      decoder(parsed, instruction);
    } catch (const std::exception &error) {
      throw std::runtime_error(where + error.what());
    }
    program->instructions.push_back(std::move(instruction));
  }
  // The parsed instructions are not needed after decoding.
  kernel.instructions.clear();
  program->header = std::move(kernel);
  return program;
}
