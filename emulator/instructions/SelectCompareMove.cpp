//===- SelectCompareMove.cpp - Comparisons, selections and moves ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.6 and 9.7.7, and mov of 9.7.9.
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

/// A comparison as a set of relations. Each bit is one of: less, equal,
/// greater, unordered.
struct Comparison {
  const char *name;
  unsigned relations;
  bool isFloat;
};
constexpr Comparison kComparisons[] = {
    {"eq", 2, false}, {"ne", 5, false},  {"lt", 1, false},  {"le", 3, false},
    {"gt", 4, false}, {"ge", 6, false},  {"lo", 1, false},  {"ls", 3, false},
    {"hi", 4, false}, {"hs", 6, false},  {"equ", 10, true}, {"neu", 13, true},
    {"ltu", 9, true}, {"leu", 11, true}, {"gtu", 12, true}, {"geu", 14, true},
    {"num", 7, true}, {"nan", 8, true},
};

/// Fields of Instruction::detail of setp and set, from bit 0 on: the relations,
/// the operation with a predicate, and a second result (setp) or the bits of
/// true (set).
constexpr unsigned kCombine = 4, kHasSecond = 6, kTrue = 32;
enum Combine : uint8_t { Alone, WithAnd, WithOr, WithXor };

struct Flushed {
  float value;
};

template <typename T>
bool compare(uint64_t a, uint64_t b, uint64_t relations) {
  auto find = [&](auto x, auto y) {
    unsigned relation = x < y ? 0 : x == y ? 1 : x > y ? 2 : 3;
    return (relations >> relation & 1) != 0;
  };
  if constexpr (std::is_same_v<T, Flushed>) {
    auto flush = [](uint64_t bits) {
      auto value = fromBits<float>(bits);
      return std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value;
    };
    return find(flush(a), flush(b));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return find(fromBits<T>(a), fromBits<T>(b));
  } else {
    return find(fromBits<T>(a).get(), fromBits<T>(b).get());
  }
}

bool combine(uint64_t how, bool result, bool with) {
  switch (how >> kCombine & 3) {
  case WithAnd:
    return result && with;
  case WithOr:
    return result || with;
  case WithXor:
    return result != with;
  default:
    return result;
  }
}

template <typename T>
Outcome setp(Thread &thread, const Instruction &in) {
  unsigned second = in.detail >> kHasSecond & 1;
  bool result = compare<T>(thread.get(in.operands[1 + second]),
                           thread.get(in.operands[2 + second]), in.detail);
  if (in.detail >> kCombine == 0) {
    set<bool>(thread, in, 0, result);
    return Outcome::Next;
  }
  bool with = in.detail >> kCombine & 3
                  ? thread.get(in.operands[3 + second]) & 1
                  : false;
  set<bool>(thread, in, 0, combine(in.detail, result, with));
  if (second)
    set<bool>(thread, in, 1, combine(in.detail, !result, with));
  return Outcome::Next;
}

/// setp of packed halves has a result for each half.
template <typename T>
Outcome setpPacked(Thread &thread, const Instruction &in) {
  uint64_t a = thread.get(in.operands[2]), b = thread.get(in.operands[3]);
  bool with =
      in.detail >> kCombine & 3 ? thread.get(in.operands[4]) & 1 : false;
  set<bool>(thread, in, 0,
            combine(in.detail, compare<T>(a, b, in.detail), with));
  set<bool>(thread, in, 1,
            combine(in.detail, compare<T>(a >> 16, b >> 16, in.detail), with));
  return Outcome::Next;
}

template <typename T>
Outcome setValue(Thread &thread, const Instruction &in) {
  bool result = compare<T>(thread.get(in.operands[1]),
                           thread.get(in.operands[2]), in.detail);
  if (in.detail >> kCombine & 3)
    result = combine(in.detail, result, thread.get(in.operands[3]) & 1);
  thread.set(in.operands[0], result ? in.detail >> kTrue : 0);
  return Outcome::Next;
}

Outcome selp(Thread &thread, const Instruction &in) {
  bool isFirst = thread.get(in.operands[3]) & 1;
  thread.set(in.operands[0], thread.get(in.operands[isFirst ? 1 : 2]));
  return Outcome::Next;
}

/// Instruction::detail: the third operand is a float.
Outcome slct(Thread &thread, const Instruction &in) {
  bool isFirst = in.detail ? get<float>(thread, in, 3) >= 0
                           : get<int32_t>(thread, in, 3) >= 0;
  thread.set(in.operands[0], thread.get(in.operands[isFirst ? 1 : 2]));
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// mov
//===----------------------------------------------------------------------===//

Outcome move(Thread &thread, const Instruction &in) {
  thread.set(in.operands[0], thread.get(in.operands[1]));
  return Outcome::Next;
}

/// Instruction::detail: bits of each part. The first part is the lowest.
Outcome pack(Thread &thread, const Instruction &in) {
  uint64_t result = 0;
  for (size_t i = 1; i < in.operands.size(); ++i)
    result |= thread.get(in.operands[i]) << ((i - 1) * in.detail);
  thread.set(in.operands[0], result);
  return Outcome::Next;
}

Outcome unpack(Thread &thread, const Instruction &in) {
  uint64_t value = thread.get(in.operands.back());
  uint64_t mask = (uint64_t(1) << in.detail) - 1;
  for (size_t i = 0; i + 1 < in.operands.size(); ++i)
    thread.set(in.operands[i], value >> (i * in.detail) & mask);
  return Outcome::Next;
}

uint64_t readSpecial(const Thread &thread, Special special) {
  const Block &block = *thread.block;
  const Cluster &cluster = *block.cluster;
  const LaunchShape &shape = block.grid->shape;
  Machine &machine = thread.getMachine();
  unsigned lane = thread.getLane();
  auto number = static_cast<unsigned>(special);
  /// Registers with .x, .y and .z have consecutive numbers.
  auto dimension = [&](Special first) {
    return number - static_cast<unsigned>(first);
  };
  uint32_t equal = uint32_t(1) << lane;
  switch (special) {
  case Special::TidX:
  case Special::TidY:
  case Special::TidZ:
    return thread.position[dimension(Special::TidX)];
  case Special::NtidX:
  case Special::NtidY:
  case Special::NtidZ:
    return shape.block[dimension(Special::NtidX)];
  case Special::CtaidX:
  case Special::CtaidY:
  case Special::CtaidZ:
    return block.position[dimension(Special::CtaidX)];
  case Special::NctaidX:
  case Special::NctaidY:
  case Special::NctaidZ:
    return shape.grid[dimension(Special::NctaidX)];
  case Special::ClusterCtaidX:
  case Special::ClusterCtaidY:
  case Special::ClusterCtaidZ: {
    unsigned i = dimension(Special::ClusterCtaidX);
    return block.position[i] % shape.cluster[i];
  }
  case Special::ClusterNctaidX:
  case Special::ClusterNctaidY:
  case Special::ClusterNctaidZ:
    return shape.cluster[dimension(Special::ClusterNctaidX)];
  case Special::ClusterIdX:
  case Special::ClusterIdY:
  case Special::ClusterIdZ:
    return cluster.position[dimension(Special::ClusterIdX)];
  case Special::NclusterIdX:
  case Special::NclusterIdY:
  case Special::NclusterIdZ: {
    unsigned i = dimension(Special::NclusterIdX);
    return shape.grid[i] / shape.cluster[i];
  }
  case Special::ClusterCtarank:
    return block.rank;
  case Special::ClusterNctarank:
    return cluster.blocks.size();
  case Special::LaneId:
    return lane;
  case Special::WarpId:
    return thread.warp->index;
  case Special::NwarpId:
    return machine.getLimits().threadsPerMultiprocessor / kWarpSize;
  case Special::SmId:
    return block.multiprocessor;
  case Special::NsmId:
    return machine.getLimits().multiprocessors;
  case Special::GridId:
    return block.grid->id;
  // Each instruction counts as one cycle and as one nanosecond.
  case Special::Clock:
  case Special::Clock64:
  case Special::GlobalTimer:
  case Special::GlobalTimerLo:
    return machine.getTime();
  case Special::GlobalTimerHi:
    return machine.getTime() >> 32;
  case Special::LanemaskEq:
    return equal;
  case Special::LanemaskLt:
    return equal - 1;
  case Special::LanemaskLe:
    return equal | (equal - 1);
  case Special::LanemaskGt:
    return ~(equal | (equal - 1));
  case Special::LanemaskGe:
    return ~(equal - 1);
  case Special::DynamicSmemSize:
    return shape.dynamicShared;
  case Special::TotalSmemSize:
    return block.shared.size() - kSharedBase;
  }
  return 0;
}

template <typename T>
Outcome moveSpecial(Thread &thread, const Instruction &in) {
  set<T>(thread, in, 0,
         static_cast<T>(
             readSpecial(thread, static_cast<Special>(in.operands[1].bits))));
  return Outcome::Next;
}

} // namespace

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

/// Decodes the comparison of setp and set, and its operation with a predicate.
static uint64_t decodeComparison(const ParsedInstruction &parsed, Parts &parts,
                                 Type type) {
  std::string_view name;
  if (parsed.opcode.size() > 1)
    name = parsed.opcode[1];
  auto found = std::find_if(
      std::begin(kComparisons), std::end(kComparisons),
      [&](const Comparison &comparison) { return name == comparison.name; });
  if (found == std::end(kComparisons) || (found->isFloat && !isFloat(type)) ||
      type == Type::Pred)
    throw std::runtime_error(parsed.opcode[0] + " has no comparison ." +
                             std::string(name) + " of ." + print(type));
  parts.take(name);
  auto how = static_cast<uint64_t>(parts.takeOne({"and", "or", "xor"}) + 1);
  return found->relations | how << kCombine;
}

/// Calls `function` with a value of the C++ type that is compared.
template <typename Function>
static bool withCompared(Type type, bool isFlushed, Function &&function) {
  switch (type) {
  case Type::F32:
    if (isFlushed)
      function(Flushed());
    else
      function(float());
    return true;
  case Type::F64:
    function(double());
    return true;
  case Type::F16:
  case Type::F16x2:
    function(Half());
    return true;
  case Type::BF16:
  case Type::BF16x2:
    function(BFloat());
    return true;
  default:
    return getBits(type) >= 16 && withInteger(type, function);
  }
}

static void decodeSetp(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  result.detail = decodeComparison(parsed, parts, type);
  bool isFlushed = type == Type::F32 && parts.take("ftz");
  parts.finish();
  bool isCombined = result.detail >> kCombine & 3;
  bool isPacked = type == Type::F16x2 || type == Type::BF16x2;
  bool hasSecond = isPacked || parsed.operands.size() == 4U + isCombined;
  result.detail |= uint64_t(hasSecond) << kHasSecond;
  if (!withCompared(type, isFlushed, [&](auto value) {
        using T = decltype(value);
        if constexpr (std::is_class_v<T> && !std::is_same_v<T, Flushed>)
          result.execute = isPacked ? setpPacked<T> : setp<T>;
        else
          result.execute = setp<T>;
      }))
    parts.refuse(type);
  std::vector<Expected> expected(1 + hasSecond, {Expected::Out, 1});
  expected.insert(expected.end(), 2, {Expected::In, getBits(type)});
  if (isCombined)
    expected.push_back({Expected::In, 1});
  checkOperands(parsed, result, expected);
}

static void decodeSet(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType(), to = parts.takeType();
  result.detail = decodeComparison(parsed, parts, type);
  bool isFlushed = type == Type::F32 && parts.take("ftz");
  parts.finish();
  uint64_t yes = 0;
  switch (to) {
  case Type::U32:
  case Type::S32:
    yes = UINT32_MAX;
    break;
  case Type::U16:
  case Type::S16:
    yes = UINT16_MAX;
    break;
  case Type::F32:
    yes = 0x3f800000;
    break;
  case Type::F16:
    yes = 0x3c00;
    break;
  case Type::BF16:
    yes = 0x3f80;
    break;
  default:
    parts.refuse(to);
  }
  result.detail |= yes << kTrue;
  if (type == Type::F16x2 || type == Type::BF16x2 ||
      !withCompared(type, isFlushed, [&](auto value) {
        result.execute = setValue<decltype(value)>;
      }))
    parts.refuse(type);
  std::vector<Expected> expected = {{Expected::Out, getBits(to)},
                                    {Expected::In, getBits(type)},
                                    {Expected::In, getBits(type)}};
  if (result.detail >> kCombine & 3)
    expected.push_back({Expected::In, 1});
  checkOperands(parsed, result, expected);
}

static bool isSelected(Type type) {
  return isBits(type)
             ? type != Type::B8
             : isInteger(type) || type == Type::F32 || type == Type::F64 ||
                   type == Type::F16 || type == Type::BF16;
}

static void decodeSelp(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  parts.finish();
  if (!isSelected(type))
    parts.refuse(type);
  result.execute = selp;
  std::vector<Expected> expected = expectSame(type, 2);
  expected.push_back({Expected::In, 1});
  checkOperands(parsed, result, expected);
}

static void decodeSlct(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type by = parts.takeType(), type = parts.takeType();
  parts.take("ftz"); // Zero has a sign, too, that does not count.
  parts.finish();
  if (!isSelected(type))
    parts.refuse(type);
  if (by != Type::S32 && by != Type::F32)
    parts.refuse(by);
  result.execute = slct;
  result.detail = by == Type::F32;
  std::vector<Expected> expected = expectSame(type, 2);
  expected.push_back({Expected::In, 32});
  checkOperands(parsed, result, expected);
}

/// Checks the parts of a vector and returns the bits of each.
static unsigned checkVector(const Operand &vector, Expected::Kind kind,
                            unsigned bits) {
  auto count = static_cast<unsigned>(vector.parts.size());
  if ((count != 2 && count != 4) || bits / count < 8)
    throw std::runtime_error("mov of a vector of " + std::to_string(count));
  for (const Operand &part : vector.parts) {
    bool isFree = part.kind == Operand::Kind::None && kind == Expected::Out;
    if (!isFree &&
        (part.kind != Operand::Kind::Register || part.value != bits / count))
      throw std::runtime_error(
          "mov of a vector with other parts than registers of " +
          std::to_string(bits / count) + " bits");
  }
  return bits / count;
}

static void decodeMov(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  parts.finish();
  if (type != Type::Pred && !isSelected(type))
    parts.refuse(type);
  unsigned bits = getBits(type);
  if (parsed.operands.size() != 2)
    throw std::runtime_error("mov has " +
                             std::to_string(parsed.operands.size()) +
                             " operands, expected 2");
  const Operand &to = parsed.operands[0], &from = parsed.operands[1];
  if (from.kind == Operand::Kind::Special) {
    withInteger(
        bits == 64   ? Type::B64
        : bits == 32 ? Type::B32
                     : Type::B16,
        [&](auto value) { result.execute = moveSpecial<decltype(value)>; });
    checkOperands(parsed, result, {{Expected::Out, bits}, {Expected::Any}});
  } else if (from.kind == Operand::Kind::Vector) {
    result.execute = pack;
    result.detail = checkVector(from, Expected::In, bits);
    checkOperands(parsed, result, {{Expected::Out, bits}, {Expected::Any}});
  } else if (to.kind == Operand::Kind::Vector) {
    result.execute = unpack;
    result.detail = checkVector(to, Expected::Out, bits);
    checkOperands(parsed, result, {{Expected::Any}, {Expected::In, bits}});
  } else {
    result.execute = move;
    checkOperands(parsed, result,
                  {{Expected::Out, bits}, {Expected::In, bits}});
  }
}

const Opcode emulator::kSelectCompareMove[] = {
    {"setp", decodeSetp}, {"set", decodeSet}, {"selp", decodeSelp},
    {"slct", decodeSlct}, {"mov", decodeMov}, {nullptr, nullptr},
};
