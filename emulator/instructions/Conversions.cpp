//===- Conversions.cpp - cvt ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, section 9.7.9.21.
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>
#include <limits>

using namespace fuse;
using namespace fuse::emulator;

namespace {

/// Flags in Instruction::detail. Below them are a Rounding in the lowest bits
/// and, from kIntegral on, a rounding to an integer. From kToBits on are the
/// bits of the result register.
enum Flag : uint64_t {
  Flush = 64,
  Saturate = 128,
  Relu = 256,
  Finite = 512, ///< .satfinite
};
constexpr uint64_t kRoundingMask = 7;
constexpr unsigned kIntegral = 3, kToBits = 16;
/// Roundings to an integer; zero for none.
enum Integral : uint8_t { ToEven = 1, ToZero, ToDown, ToUp };

double roundToIntegral(double value, uint64_t flags) {
  switch (flags >> kIntegral & 7) {
  case ToEven:
    return std::nearbyint(value);
  case ToZero:
    return std::trunc(value);
  case ToDown:
    return std::floor(value);
  case ToUp:
    return std::ceil(value);
  default:
    return value;
  }
}

/// The source as a double, which holds it exactly.
template <typename From>
double read(uint64_t bits, uint64_t flags) {
  auto value = fromBits<From>(bits);
  if constexpr (std::is_arithmetic_v<From>) {
    if (flags & Flush && std::is_same_v<From, float> &&
        std::fpclassify(value) == FP_SUBNORMAL)
      value = std::copysign(From(0), value);
    return value;
  } else {
    return value.get();
  }
}

/// A 64-bit integer, rounded to odd: 53 bits are kept, and the last one is set
/// if any other bit is lost.
template <typename From>
double readInteger(uint64_t bits) {
  auto value = fromBits<From>(bits);
  bool isNegative = value < From(0);
  uint64_t magnitude =
      isNegative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (magnitude >> 53) {
    unsigned lost = 64 - 53 - __builtin_clzll(magnitude);
    uint64_t rest = magnitude & ((uint64_t(1) << lost) - 1);
    magnitude = ((magnitude >> lost) | (rest != 0)) << lost;
  }
  auto result = static_cast<double>(magnitude);
  return isNegative ? -result : result;
}

template <const Format &format>
uint32_t write(double value, uint64_t flags) {
  if (flags & Saturate)
    value = value > 0 ? std::min(value, 1.0) : 0; // NaN, too.
  if (flags & Relu && value <= 0)
    value = 0;
  uint32_t bits =
      encodeFloat(value, format, static_cast<Rounding>(flags & kRoundingMask),
                  flags & Finite);
  if (flags & Flush && format.mantissaBits == kSingle.mantissaBits &&
      !(bits & 0x7f800000))
    bits &= format.getSign();
  // TF32 is stored in the upper bits of a single.
  return format.getBits() == 19 ? bits << 13 : bits;
}

template <typename From, typename To>
Outcome integerToInteger(Thread &thread, const Instruction &in) {
  auto value = get<From>(thread, in, 1);
  To result = static_cast<To>(value);
  if (in.detail & Saturate) {
    using Limits = std::numeric_limits<To>;
    if (std::is_signed_v<From> && value < From(0))
      result = static_cast<To>(std::max<int64_t>(
          value,
          std::is_signed_v<To> ? static_cast<int64_t>(Limits::min()) : 0));
    else
      result = static_cast<To>(
          std::min<uint64_t>(value, static_cast<uint64_t>(Limits::max())));
  }
  // The result is sign-extended to the width of its register.
  uint64_t bits = static_cast<uint64_t>(result);
  unsigned width = in.detail >> kToBits;
  thread.set(in.operands[0],
             width < 64 ? bits & ((uint64_t(1) << width) - 1) : bits);
  return Outcome::Next;
}

/// Large numbers become the largest integer, NaN becomes zero.
template <typename From, typename To>
Outcome floatToInteger(Thread &thread, const Instruction &in) {
  double value = roundToIntegral(
      read<From>(thread.get(in.operands[1]), in.detail), in.detail);
  using Limits = std::numeric_limits<To>;
  // Both limits are powers of two. The upper one is the largest integer plus
  // one.
  double below = static_cast<double>(Limits::min());
  double above = std::ldexp(1.0, Limits::digits);
  To result = std::isnan(value) ? To(0)
              : value <= below  ? Limits::min()
              : value >= above  ? Limits::max()
                                : static_cast<To>(value);
  uint64_t bits = static_cast<uint64_t>(result);
  unsigned width = in.detail >> kToBits;
  thread.set(in.operands[0],
             width < 64 ? bits & ((uint64_t(1) << width) - 1) : bits);
  return Outcome::Next;
}

template <typename From, const Format &to>
Outcome integerToFloat(Thread &thread, const Instruction &in) {
  thread.set(
      in.operands[0],
      write<to>(readInteger<From>(thread.get(in.operands[1])), in.detail));
  return Outcome::Next;
}

template <typename From>
Outcome integerToDouble(Thread &thread, const Instruction &in) {
  set<double>(thread, in, 0, static_cast<double>(get<From>(thread, in, 1)));
  return Outcome::Next;
}

template <typename From, const Format &to>
Outcome floatToFloat(Thread &thread, const Instruction &in) {
  double value = read<From>(thread.get(in.operands[1]), in.detail);
  thread.set(in.operands[0],
             write<to>(roundToIntegral(value, in.detail), in.detail));
  return Outcome::Next;
}

template <typename From>
Outcome floatToDouble(Thread &thread, const Instruction &in) {
  double value = roundToIntegral(
      read<From>(thread.get(in.operands[1]), in.detail), in.detail);
  if (in.detail & Saturate)
    value = value > 0 ? std::min(value, 1.0) : 0;
  set<double>(thread, in, 0, value);
  return Outcome::Next;
}

/// The first operand becomes the upper half.
template <const Format &to>
Outcome pairToPacked(Thread &thread, const Instruction &in) {
  uint64_t high =
      write<to>(read<float>(thread.get(in.operands[1]), in.detail), in.detail);
  uint64_t low =
      write<to>(read<float>(thread.get(in.operands[2]), in.detail), in.detail);
  thread.set(in.operands[0], high << to.getBits() | low);
  return Outcome::Next;
}

template <const Format &from, const Format &to>
Outcome packedToPacked(Thread &thread, const Instruction &in) {
  uint64_t bits = thread.get(in.operands[1]), result = 0;
  for (unsigned i = 0; i < 2; ++i) {
    auto part = static_cast<uint32_t>(bits >> (i * from.getBits())) &
                ((uint32_t(1) << from.getBits()) - 1);
    result |= uint64_t(write<to>(decodeFloat(part, from), in.detail))
              << (i * to.getBits());
  }
  thread.set(in.operands[0], result);
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// Selection of functions
//===----------------------------------------------------------------------===//

bool isNumber(Type type) {
  return isInteger(type) || type == Type::U8 || type == Type::S8;
}

bool isScalarFloat(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 ||
         type == Type::F64 || type == Type::TF32;
}

template <typename Function>
bool withFloat(Type type, Function &&function) {
  switch (type) {
  case Type::F16:
    function(Half());
    return true;
  case Type::BF16:
    function(BFloat());
    return true;
  case Type::F32:
    function(float());
    return true;
  case Type::F64:
    function(double());
    return true;
  default:
    return false;
  }
}

template <typename From>
Execute getFloatToFloat(Type to) {
  switch (to) {
  case Type::F16:
    return floatToFloat<From, kHalf>;
  case Type::BF16:
    return floatToFloat<From, kBFloat>;
  case Type::TF32:
    return floatToFloat<From, kTF32>;
  case Type::F32:
    return floatToFloat<From, kSingle>;
  default:
    return floatToDouble<From>;
  }
}

template <typename From>
Execute getIntegerToFloat(Type to) {
  switch (to) {
  case Type::F16:
    return integerToFloat<From, kHalf>;
  case Type::BF16:
    return integerToFloat<From, kBFloat>;
  case Type::F32:
    return integerToFloat<From, kSingle>;
  case Type::F64:
    return integerToDouble<From>;
  default:
    return nullptr;
  }
}

Execute getPairToPacked(Type to) {
  switch (to) {
  case Type::F16x2:
    return pairToPacked<kHalf>;
  case Type::BF16x2:
    return pairToPacked<kBFloat>;
  case Type::E4M3x2:
    return pairToPacked<kE4M3>;
  case Type::E5M2x2:
    return pairToPacked<kE5M2>;
  default:
    return nullptr;
  }
}

Execute getPackedToPacked(Type from, Type to) {
  if (from == Type::F16x2)
    return to == Type::E4M3x2   ? packedToPacked<kHalf, kE4M3>
           : to == Type::E5M2x2 ? packedToPacked<kHalf, kE5M2>
                                : nullptr;
  if (to != Type::F16x2)
    return nullptr;
  return from == Type::E4M3x2   ? packedToPacked<kE4M3, kHalf>
         : from == Type::E5M2x2 ? packedToPacked<kE5M2, kHalf>
                                : nullptr;
}

/// Whether every value of `from` is a value of `to`.
bool isExact(Type from, Type to) {
  auto rank = [](Type type) {
    return type == Type::F64 ? 3 : type == Type::F32 ? 2 : 1;
  };
  return from == to || rank(from) < rank(to);
}

} // namespace

//===----------------------------------------------------------------------===//
// Decoder
//===----------------------------------------------------------------------===//

/// Registers may be wider than their integer type.
static unsigned findBits(const ParsedInstruction &parsed, size_t number,
                         Type type) {
  unsigned bits = getBits(type);
  if (number >= parsed.operands.size())
    return bits;
  const Operand &operand = parsed.operands[number];
  if (isNumber(type) && operand.kind == Operand::Kind::Register &&
      operand.value > bits)
    return static_cast<unsigned>(operand.value);
  return bits;
}

static void decodeCvt(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type from = parts.takeType(), to = parts.takeType();
  int integral = parts.takeOne({"rni", "rzi", "rmi", "rpi"});
  bool isAway = parts.take("rna"), isRounded = false;
  Rounding rounding = parts.takeRounding(
      isAway ? Rounding::Away : Rounding::Nearest, &isRounded);
  isRounded |= isAway;
  uint64_t flags = static_cast<uint64_t>(rounding) |
                   static_cast<uint64_t>(integral + 1) << kIntegral;
  if (parts.take("ftz"))
    flags |= Flush;
  if (parts.take("sat"))
    flags |= Saturate;
  if (parts.take("relu"))
    flags |= Relu;
  if (parts.take("satfinite"))
    flags |= Finite;
  parts.finish();
  auto refuse = [&](const char *why) {
    throw std::runtime_error(std::string("the emulator knows no cvt of .") +
                             print(from) + " to ." + print(to) + why);
  };
  if (flags & Flush && from != Type::F32 && to != Type::F32)
    refuse(" with .ftz");
  std::vector<Expected> expected = {{Expected::Out, findBits(parsed, 0, to)},
                                    {Expected::In, findBits(parsed, 1, from)}};
  if (isNumber(from) && isNumber(to)) {
    if (flags & ~uint64_t(Saturate) || isRounded)
      refuse(" with a rounding");
    withInteger(from, [&](auto source) {
      withInteger(to, [&](auto target) {
        result.execute = integerToInteger<decltype(source), decltype(target)>;
      });
    });
  } else if (isNumber(to)) {
    if (integral < 0 || isRounded || flags & (Relu | Finite))
      refuse(" without one of .rni, .rzi, .rmi, .rpi alone");
    if (!withFloat(from, [&](auto source) {
          withInteger(to, [&](auto target) {
            result.execute = floatToInteger<decltype(source), decltype(target)>;
          });
        }))
      refuse("");
  } else if (isNumber(from)) {
    if (!isRounded || isAway || integral >= 0 || flags & (Relu | Finite))
      refuse(" without one of .rn, .rz, .rm, .rp alone");
    withInteger(from, [&](auto source) {
      result.execute = getIntegerToFloat<decltype(source)>(to);
    });
    if (to == Type::F64 && rounding != Rounding::Nearest && getBits(from) == 64)
      refuse(" with another rounding than .rn");
  } else if (isScalarFloat(from) && isScalarFloat(to)) {
    if (!isExact(from, to) && !isRounded && integral < 0)
      refuse(" without a rounding");
    withFloat(from, [&](auto source) {
      result.execute = getFloatToFloat<decltype(source)>(to);
    });
  } else if (from == Type::F32) {
    bool isFloat8 = to == Type::E4M3x2 || to == Type::E5M2x2;
    if (!isRounded || integral >= 0 || (isFloat8 && !(flags & Finite)))
      refuse(isFloat8 ? " without .rn.satfinite" : " without a rounding");
    result.execute = getPairToPacked(to);
    expected.push_back({Expected::In, 32});
  } else {
    if (rounding != Rounding::Nearest || !isRounded || integral >= 0)
      refuse(" without .rn");
    result.execute = getPackedToPacked(from, to);
  }
  if (!result.execute)
    refuse("");
  result.detail = flags | uint64_t(expected[0].bits) << kToBits;
  checkOperands(parsed, result, expected);
}

const Opcode emulator::kConversions[] = {{"cvt", decodeCvt},
                                         {nullptr, nullptr}};
