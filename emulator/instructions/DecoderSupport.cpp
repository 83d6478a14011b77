//===- DecoderSupport.cpp - Helpers of all decoders -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {
struct TypeInfo {
  const char *name;
  unsigned bits;
};
} // namespace

/// Indexed by Type.
static constexpr TypeInfo kTypes[] = {
    {"", 0},       {"pred", 1}, {"b8", 8},    {"b16", 16},    {"b32", 32},
    {"b64", 64},   {"u8", 8},   {"u16", 16},  {"u32", 32},    {"u64", 64},
    {"s8", 8},     {"s16", 16}, {"s32", 32},  {"s64", 64},    {"u16x2", 32},
    {"s16x2", 32}, {"f16", 16}, {"bf16", 16}, {"f16x2", 32},  {"bf16x2", 32},
    {"f32", 32},   {"f64", 64}, {"tf32", 32}, {"e4m3x2", 16}, {"e5m2x2", 16},
};

Type emulator::parseType(std::string_view name) {
  static const auto types = [] {
    std::unordered_map<std::string_view, Type> result;
    for (size_t i = 1; i < std::size(kTypes); ++i)
      result.emplace(kTypes[i].name, static_cast<Type>(i));
    return result;
  }();
  auto found = types.find(name);
  return found == types.end() ? Type::None : found->second;
}

const char *emulator::print(Type type) {
  return kTypes[static_cast<size_t>(type)].name;
}

unsigned emulator::getBits(Type type) {
  return kTypes[static_cast<size_t>(type)].bits;
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

Parts::Parts(const ParsedInstruction &parsed, size_t first)
    : name(parsed.opcode[0]),
      parts(parsed.opcode.begin() + static_cast<ptrdiff_t>(first),
            parsed.opcode.end()) {
  for (size_t i = 1; i < first; ++i)
    name += "." + parsed.opcode[i];
}

bool Parts::take(std::string_view part) {
  auto found = std::find(parts.begin(), parts.end(), part);
  if (found == parts.end())
    return false;
  parts.erase(found);
  return true;
}

int Parts::takeOne(std::initializer_list<const char *> names) {
  int result = -1, number = 0;
  for (const char *candidate : names) {
    if (result < 0 && take(candidate))
      result = number;
    ++number;
  }
  return result;
}

Type Parts::findType() {
  for (size_t i = parts.size(); i-- > 0;)
    if (Type type = parseType(parts[i]); type != Type::None) {
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(i));
      return type;
    }
  return Type::None;
}

Type Parts::takeType() {
  Type type = findType();
  if (type == Type::None)
    throw std::runtime_error(name + " has no type that the emulator knows");
  return type;
}

Rounding Parts::takeRounding(Rounding otherwise, bool *isGiven) {
  int found = takeOne({"rn", "rz", "rm", "rp"});
  if (isGiven)
    *isGiven = found >= 0;
  constexpr Rounding roundings[] = {Rounding::Nearest, Rounding::Zero,
                                    Rounding::Down, Rounding::Up};
  return found < 0 ? otherwise : roundings[found];
}

unsigned Parts::takeRank() {
  return static_cast<unsigned>(takeOne({"1d", "2d", "3d", "4d", "5d"}) + 1);
}

void Parts::finish() const {
  if (!parts.empty())
    throw std::runtime_error("the emulator does not know " + name + " with ." +
                             std::string(parts.front()));
}

void Parts::refuse(Type type) const {
  throw std::runtime_error("the emulator does not know " + name + " of ." +
                           print(type));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static bool isRegister(const Operand &operand, unsigned bits) {
  return operand.kind == Operand::Kind::Register &&
         (bits ? operand.value == bits : operand.value != 1);
}

static bool fits(const Operand &operand, const Expected &expected) {
  auto isResult = [&](const Operand &part) {
    return isRegister(part, expected.bits) && !part.isNegated;
  };
  auto isInput = [&](const Operand &part) {
    return isRegister(part, expected.bits) ||
           part.kind == Operand::Kind::Immediate;
  };
  const std::vector<Operand> &parts = operand.parts;
  switch (expected.kind) {
  case Expected::Out:
    return isResult(operand) || operand.kind == Operand::Kind::None;
  case Expected::In:
    return isInput(operand);
  case Expected::Constant:
    return operand.kind == Operand::Kind::Immediate;
  case Expected::Address:
    return operand.kind == Operand::Kind::Address &&
           parts.size() == expected.count + 1 &&
           std::all_of(parts.begin() + 1, parts.end(), isInput);
  case Expected::Vector:
    if (operand.kind != Operand::Kind::Vector)
      return expected.count == 1 && isResult(operand);
    return parts.size() == expected.count &&
           std::all_of(parts.begin(), parts.end(), isResult);
  case Expected::Label:
    return operand.kind == Operand::Kind::Label;
  case Expected::Any:
    return true;
  }
  return false;
}

static std::string describe(const Expected &expected) {
  std::string bits =
      expected.bits == 1 ? "a predicate"
      : expected.bits
          ? "a register of " + std::to_string(expected.bits) + " bits"
          : "a register";
  std::string count = std::to_string(expected.count);
  switch (expected.kind) {
  case Expected::Out:
    return bits + " or _";
  case Expected::In:
    return bits + " or a number";
  case Expected::Constant:
    return "a number";
  case Expected::Address:
    return expected.count ? "an address with " + count + " coordinates"
                          : "an address in brackets";
  case Expected::Vector:
    return "a vector of " + count + ", each " + bits;
  case Expected::Label:
    return "a label";
  case Expected::Any:
    break;
  }
  return "anything";
}

/// Number of values in Instruction::operands that an operand becomes.
static size_t count(const Operand &operand) {
  size_t result = operand.kind == Operand::Kind::Vector ? 0 : 1;
  for (const Operand &part : operand.parts)
    result += count(part);
  return result;
}

void emulator::checkOperands(const ParsedInstruction &parsed,
                             Instruction &result,
                             const std::vector<Expected> &expected,
                             bool isLastOptional) {
  size_t given = parsed.operands.size(), most = expected.size();
  if (given > most || given + isLastOptional < most)
    throw std::runtime_error(
        parsed.opcode[0] + " has " + std::to_string(given) +
        " operands here, expected " +
        (isLastOptional ? std::to_string(most - 1) + " or " : "") +
        std::to_string(most));
  size_t index = 0;
  for (size_t i = 0; i < given; ++i) {
    const Operand &operand = parsed.operands[i];
    if (!fits(operand, expected[i]))
      throw std::runtime_error("operand " + std::to_string(i) + " of " +
                               parsed.opcode[0] + " must be " +
                               describe(expected[i]));
    unsigned bits = expected[i].bits;
    if (operand.kind == Operand::Kind::Immediate && bits > 0 && bits < 64)
      result.operands[index].bits &= (uint64_t(1) << bits) - 1;
    index += count(operand);
  }
}

std::vector<Expected> emulator::expectSame(Type type, unsigned numInputs) {
  std::vector<Expected> result(1 + numInputs, {Expected::In, getBits(type)});
  result[0].kind = Expected::Out;
  return result;
}
