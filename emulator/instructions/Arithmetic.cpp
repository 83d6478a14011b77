//===- Arithmetic.cpp - Integers and bits ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.1 (integers) and 9.7.8 (logic and shifts).
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {

/// The type in which T wraps around: unsigned, and wide enough not to be
/// promoted to int.
template <typename T>
using Wrapping =
    std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

/// The type with twice the width and the same sign.
template <typename T>
struct Double;
template <>
struct Double<uint16_t> {
  using Type = uint32_t;
};
template <>
struct Double<int16_t> {
  using Type = int32_t;
};
template <>
struct Double<uint32_t> {
  using Type = uint64_t;
};
template <>
struct Double<int32_t> {
  using Type = int64_t;
};
template <>
struct Double<uint64_t> {
  using Type = unsigned __int128;
};
template <>
struct Double<int64_t> {
  using Type = __int128;
};

template <typename T>
typename Double<T>::Type multiply(T a, T b) {
  using Wide = typename Double<T>::Type;
  return static_cast<Wide>(a) * static_cast<Wide>(b);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) +
                          static_cast<Wrapping<T>>(b));
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) -
                          static_cast<Wrapping<T>>(b));
  }
};
struct MulLow {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) *
                          static_cast<Wrapping<T>>(b));
  }
};
struct MulHigh {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(multiply(a, b) >> (8 * sizeof(T)));
  }
};
/// Division by zero gives all ones, as on a GPU. The least number divided by
/// minus one is itself.
struct Div {
  template <typename T>
  static T apply(T a, T b) {
    if (b == 0)
      return static_cast<T>(~Wrapping<T>(0));
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return Sub::apply<T>(0, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  static T apply(T a, T b) {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1))
      return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  template <typename T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct Neg {
  template <typename T>
  static T apply(T a) {
    return Sub::apply<T>(0, a);
  }
};
struct Abs {
  template <typename T>
  static T apply(T a) {
    return a < 0 ? Sub::apply<T>(0, a) : a;
  }
};
/// `cnot`
struct IsZero {
  template <typename T>
  static T apply(T a) {
    return a == 0;
  }
};
struct Reverse {
  template <typename T>
  static T apply(T a) {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      result |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
    return result;
  }
};

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

template <typename T, typename F>
Outcome unary(Thread &thread, const Instruction &in) {
  set<T>(thread, in, 0, F::template apply<T>(get<T>(thread, in, 1)));
  return Outcome::Next;
}

template <typename T, typename F>
Outcome binary(Thread &thread, const Instruction &in) {
  set<T>(thread, in, 0,
         F::template apply<T>(get<T>(thread, in, 1), get<T>(thread, in, 2)));
  return Outcome::Next;
}

/// Applies F to both 16-bit halves of a register.
template <typename T, typename F>
Outcome packed(Thread &thread, const Instruction &in) {
  uint64_t a = thread.get(in.operands[1]), b = thread.get(in.operands[2]);
  uint64_t low = toBits(F::template apply<T>(fromBits<T>(a), fromBits<T>(b)));
  uint64_t high =
      toBits(F::template apply<T>(fromBits<T>(a >> 16), fromBits<T>(b >> 16)));
  thread.set(in.operands[0], high << 16 | low);
  return Outcome::Next;
}

/// `add.sat.s32`
template <typename F>
Outcome saturated(Thread &thread, const Instruction &in) {
  int64_t value = F::template apply<int64_t>(get<int32_t>(thread, in, 1),
                                             get<int32_t>(thread, in, 2));
  set<int32_t>(
      thread, in, 0,
      static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)));
  return Outcome::Next;
}

template <typename T>
Outcome mulWide(Thread &thread, const Instruction &in) {
  set<typename Double<T>::Type>(
      thread, in, 0, multiply(get<T>(thread, in, 1), get<T>(thread, in, 2)));
  return Outcome::Next;
}

template <typename T, typename F>
Outcome mad(Thread &thread, const Instruction &in) {
  T product =
      F::template apply<T>(get<T>(thread, in, 1), get<T>(thread, in, 2));
  set<T>(thread, in, 0, Add::apply<T>(product, get<T>(thread, in, 3)));
  return Outcome::Next;
}

template <typename T>
Outcome madWide(Thread &thread, const Instruction &in) {
  using Wide = typename Double<T>::Type;
  Wide product = multiply(get<T>(thread, in, 1), get<T>(thread, in, 2));
  set<Wide>(thread, in, 0, Add::apply<Wide>(product, get<Wide>(thread, in, 3)));
  return Outcome::Next;
}

/// sad: adds the absolute difference of two operands to a third.
template <typename T>
Outcome sad(Thread &thread, const Instruction &in) {
  T a = get<T>(thread, in, 1), b = get<T>(thread, in, 2);
  T distance = a < b ? Sub::apply<T>(b, a) : Sub::apply<T>(a, b);
  set<T>(thread, in, 0, Add::apply<T>(distance, get<T>(thread, in, 3)));
  return Outcome::Next;
}

/// An amount of at least the width shifts all bits out.
template <typename T>
Outcome shl(Thread &thread, const Instruction &in) {
  auto amount = get<uint32_t>(thread, in, 2);
  T value = get<T>(thread, in, 1);
  set<T>(thread, in, 0,
         amount < 8 * sizeof(T) ? static_cast<T>(value << amount) : T(0));
  return Outcome::Next;
}

template <typename T>
Outcome shr(Thread &thread, const Instruction &in) {
  auto amount = get<uint32_t>(thread, in, 2);
  T value = get<T>(thread, in, 1);
  if (amount >= 8 * sizeof(T)) {
    bool isNegative = std::is_signed_v<T> && value < T(0);
    set<T>(thread, in, 0, isNegative ? static_cast<T>(-1) : T(0));
  } else {
    set<T>(thread, in, 0, static_cast<T>(value >> amount));
  }
  return Outcome::Next;
}

/// `shf`: 32 bits of a 64-bit shift. Instruction::detail: 1 for right, 2 for
/// clamp.
Outcome funnel(Thread &thread, const Instruction &in) {
  uint64_t value = uint64_t(get<uint32_t>(thread, in, 2)) << 32 |
                   get<uint32_t>(thread, in, 1);
  auto amount = get<uint32_t>(thread, in, 3);
  amount = in.detail & 2 ? std::min(amount, 32U) : amount & 31;
  value = in.detail & 1 ? value >> amount : value << amount >> 32;
  set<uint32_t>(thread, in, 0, static_cast<uint32_t>(value));
  return Outcome::Next;
}

template <typename T>
Outcome popc(Thread &thread, const Instruction &in) {
  set<uint32_t>(thread, in, 0, __builtin_popcountll(get<T>(thread, in, 1)));
  return Outcome::Next;
}

template <typename T>
unsigned countLeadingZeros(T value) {
  return value == 0 ? 8 * sizeof(T)
                    : __builtin_clzll(value) - (64 - 8 * sizeof(T));
}

template <typename T>
Outcome clz(Thread &thread, const Instruction &in) {
  set<uint32_t>(thread, in, 0, countLeadingZeros(get<T>(thread, in, 1)));
  return Outcome::Next;
}

/// The index of the highest bit that differs from the sign, or its distance
/// from the top.
template <typename T>
Outcome bfind(Thread &thread, const Instruction &in) {
  T value = get<T>(thread, in, 1);
  if (std::is_signed_v<T> && value < T(0))
    value = ~value;
  using U = std::make_unsigned_t<T>;
  unsigned zeros = countLeadingZeros(static_cast<U>(value));
  uint32_t found = zeros == 8 * sizeof(T) ? ~0U
                   : in.detail            ? zeros
                                          : 8 * sizeof(T) - 1 - zeros;
  set<uint32_t>(thread, in, 0, found);
  return Outcome::Next;
}

/// Extracts `length` bits from `begin` on and extends their sign.
template <typename T>
Outcome bfe(Thread &thread, const Instruction &in) {
  constexpr unsigned bits = 8 * sizeof(T);
  T value = get<T>(thread, in, 1);
  unsigned begin = get<uint8_t>(thread, in, 2);
  unsigned length = get<uint8_t>(thread, in, 3);
  unsigned last = std::min(begin + length - 1, bits - 1);
  bool isNegative =
      std::is_signed_v<T> && length > 0 && (value >> last & 1) != 0;
  uint64_t result = isNegative ? ~uint64_t(0) : 0;
  for (unsigned i = 0; i < bits && i < length && begin + i < bits; ++i) {
    uint64_t bit = uint64_t(1) << i;
    result = value >> (begin + i) & 1 ? result | bit : result & ~bit;
  }
  set<T>(thread, in, 0, static_cast<T>(result));
  return Outcome::Next;
}

template <typename T>
Outcome bfi(Thread &thread, const Instruction &in) {
  constexpr unsigned bits = 8 * sizeof(T);
  T part = get<T>(thread, in, 1), result = get<T>(thread, in, 2);
  unsigned begin = get<uint8_t>(thread, in, 3);
  unsigned length = get<uint8_t>(thread, in, 4);
  for (unsigned i = 0; i < length && begin + i < bits; ++i) {
    T bit = T(1) << (begin + i);
    result = part >> i & 1 ? result | bit : result & ~bit;
  }
  set<T>(thread, in, 0, result);
  return Outcome::Next;
}

/// szext. Instruction::detail: the length is clamped instead of taken modulo
/// 32.
template <typename T>
Outcome szext(Thread &thread, const Instruction &in) {
  auto value = get<uint32_t>(thread, in, 1);
  auto length = get<uint32_t>(thread, in, 2);
  length = in.detail ? std::min(length, 32U) : length & 31;
  if (length < 32) {
    bool isNegative =
        std::is_signed_v<T> && length > 0 && (value >> (length - 1) & 1);
    uint32_t mask = (uint32_t(1) << length) - 1;
    value = isNegative ? value | ~mask : value & mask;
  }
  set<uint32_t>(thread, in, 0, value);
  return Outcome::Next;
}

/// A mask with `length` ones from `begin` on.
Outcome bmsk(Thread &thread, const Instruction &in) {
  auto begin = get<uint32_t>(thread, in, 1);
  auto length = get<uint32_t>(thread, in, 2);
  begin = in.detail ? std::min(begin, 32U) : begin & 31;
  length = in.detail ? std::min(length, 32U) : length & 31;
  set<uint32_t>(thread, in, 0,
                static_cast<uint32_t>(((uint64_t(1) << length) - 1) << begin));
  return Outcome::Next;
}

/// A function of three operands, whose truth table is the last operand.
Outcome lop3(Thread &thread, const Instruction &in) {
  auto a = get<uint32_t>(thread, in, 1), b = get<uint32_t>(thread, in, 2),
       c = get<uint32_t>(thread, in, 3), table = get<uint32_t>(thread, in, 4);
  uint32_t result = 0;
  for (unsigned i = 0; i < 8; ++i)
    if (table >> i & 1)
      result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  set<uint32_t>(thread, in, 0, result);
  return Outcome::Next;
}

/// Selects bytes of two registers. Instruction::detail: the mode, or zero.
Outcome prmt(Thread &thread, const Instruction &in) {
  uint64_t bytes = uint64_t(get<uint32_t>(thread, in, 2)) << 32 |
                   get<uint32_t>(thread, in, 1);
  auto selector = get<uint32_t>(thread, in, 3);
  unsigned first = selector & 3;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned which = 0;
    bool isSign = false;
    switch (in.detail) {
    case 0:
      which = selector >> (4 * i) & 7;
      isSign = selector >> (4 * i + 3) & 1;
      break;
    case 1: // f4e: four forward
      which = first + i;
      break;
    case 2: // b4e: four backward
      which = (first - i) & 7;
      break;
    case 3: // rc8: one byte everywhere
      which = first;
      break;
    case 4: // ecl: from the left, the edge repeated
      which = std::max(first, i);
      break;
    case 5: // ecr: from the right
      which = std::min(first, i);
      break;
    default: // rc16: a half everywhere
      which = (first & 1) * 2 + (i & 1);
      break;
    }
    auto byte = static_cast<uint32_t>(bytes >> (8 * which) & 0xff);
    if (isSign)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  set<uint32_t>(thread, in, 0, result);
  return Outcome::Next;
}

template <typename A, typename B>
Outcome dp4a(Thread &thread, const Instruction &in) {
  auto a = get<uint32_t>(thread, in, 1), b = get<uint32_t>(thread, in, 2),
       sum = get<uint32_t>(thread, in, 3);
  for (unsigned i = 0; i < 32; i += 8)
    sum += static_cast<uint32_t>(int32_t(static_cast<A>(a >> i)) *
                                 int32_t(static_cast<B>(b >> i)));
  set<uint32_t>(thread, in, 0, sum);
  return Outcome::Next;
}

} // namespace

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

static bool isFloatForm(const ParsedInstruction &parsed) {
  return std::any_of(
      parsed.opcode.begin() + 1, parsed.opcode.end(),
      [](const std::string &part) { return isFloat(parseType(part)); });
}

template <typename F>
static bool setPacked(Instruction &result, Type type) {
  if (type == Type::U16x2)
    result.execute = packed<uint16_t, F>;
  else if (type == Type::S16x2)
    result.execute = packed<int16_t, F>;
  else
    return false;
  return true;
}

/// add, sub, min, max, div, rem.
template <typename F>
static void decodeBinary(const ParsedInstruction &parsed, Instruction &result) {
  if (isFloatForm(parsed))
    return decodeFloatArithmetic(parsed, result);
  Parts parts(parsed);
  Type type = parts.takeType();
  constexpr bool isSum = std::is_same_v<F, Add> || std::is_same_v<F, Sub>;
  constexpr bool isPacked = std::is_same_v<F, Add> || std::is_same_v<F, Min> ||
                            std::is_same_v<F, Max>;
  if (isSum && type == Type::S32 && parts.take("sat"))
    result.execute = saturated<F>;
  else if (!(isPacked && setPacked<F>(result, type)) &&
           !(isInteger(type) && withInteger(type, [&](auto value) {
               result.execute = binary<decltype(value), F>;
             })))
    parts.refuse(type);
  parts.finish();
  checkOperands(parsed, result, expectSame(type, 2));
}

/// and, or, xor. Bits beyond the type are already zero.
template <typename F>
static void decodeLogic(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  if (type != Type::Pred && (!isBits(type) || type == Type::B8))
    parts.refuse(type);
  parts.finish();
  result.execute = binary<uint64_t, F>;
  checkOperands(parsed, result, expectSame(type, 2));
}

template <typename F>
static void decodeNot(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  if (type == Type::Pred && std::is_same_v<F, Not>)
    result.execute = unary<uint64_t, IsZero>;
  else if (!isBits(type) || type == Type::B8 ||
           !withInteger(type, [&](auto value) {
             result.execute = unary<decltype(value), F>;
           }))
    parts.refuse(type);
  parts.finish();
  checkOperands(parsed, result, expectSame(type, 1));
}

template <typename F>
static void decodeSign(const ParsedInstruction &parsed, Instruction &result) {
  if (isFloatForm(parsed))
    return decodeFloatArithmetic(parsed, result);
  Parts parts(parsed);
  Type type = parts.takeType();
  if (!isSigned(type) || type == Type::S8)
    parts.refuse(type);
  withInteger(type, [&](auto value) {
    if constexpr (std::is_signed_v<decltype(value)>)
      result.execute = unary<decltype(value), F>;
  });
  parts.finish();
  checkOperands(parsed, result, expectSame(type, 1));
}

/// mul and mad with .lo, .hi or .wide.
static void decodeMul(const ParsedInstruction &parsed, Instruction &result) {
  if (isFloatForm(parsed))
    return decodeFloatArithmetic(parsed, result);
  bool isMad = parsed.opcode[0] == "mad";
  Parts parts(parsed);
  Type type = parts.takeType();
  int part = parts.takeOne({"lo", "hi", "wide"});
  if (part < 0)
    throw std::runtime_error(parsed.opcode[0] + " has none of .lo, .hi, .wide");
  parts.finish();
  bool isWide = part == 2;
  if (!isInteger(type) || (isWide && getBits(type) == 64))
    parts.refuse(type);
  withInteger(type, [&](auto value) {
    using T = decltype(value);
    if constexpr (sizeof(T) > 1) {
      if (part == 0)
        result.execute = isMad ? mad<T, MulLow> : binary<T, MulLow>;
      else if (part == 1)
        result.execute = isMad ? mad<T, MulHigh> : binary<T, MulHigh>;
      else if constexpr (sizeof(T) < 8)
        result.execute = isMad ? madWide<T> : mulWide<T>;
    }
  });
  std::vector<Expected> expected = expectSame(type, isMad ? 3 : 2);
  if (isWide) {
    expected[0].bits *= 2;
    if (isMad)
      expected[3].bits *= 2;
  }
  checkOperands(parsed, result, expected);
}

static void decodeSad(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  if (!isInteger(type))
    parts.refuse(type);
  withInteger(type, [&](auto value) { result.execute = sad<decltype(value)>; });
  parts.finish();
  checkOperands(parsed, result, expectSame(type, 3));
}

static void decodeShift(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  bool isLeft = parsed.opcode[0] == "shl";
  if (!(isBits(type) && type != Type::B8) && !(!isLeft && isInteger(type)))
    parts.refuse(type);
  withInteger(type, [&](auto value) {
    using T = decltype(value);
    result.execute = isLeft ? shl<std::make_unsigned_t<T>> : shr<T>;
  });
  parts.finish();
  unsigned bits = getBits(type);
  checkOperands(
      parsed, result,
      {{Expected::Out, bits}, {Expected::In, bits}, {Expected::In, 32}});
}

static void decodeFunnel(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  int direction = parts.takeOne({"l", "r"});
  int mode = parts.takeOne({"wrap", "clamp"});
  Type type = parts.takeType();
  if (type != Type::B32 || direction < 0 || mode < 0)
    parts.refuse(type);
  parts.finish();
  result.detail = direction | mode << 1;
  result.execute = funnel;
  checkOperands(parsed, result, expectSame(type, 3));
}

/// popc, clz, bfind, brev.
static void decodeCount(const ParsedInstruction &parsed, Instruction &result) {
  const std::string &name = parsed.opcode[0];
  Parts parts(parsed);
  Type type = parts.takeType();
  bool isFind = name == "bfind";
  if (getBits(type) < 32 || isFloat(type) || isBits(type) == isFind)
    parts.refuse(type);
  result.detail = isFind && parts.take("shiftamt");
  parts.finish();
  bool isReverse = name == "brev";
  withInteger(type, [&](auto value) {
    using T = decltype(value);
    using U = std::make_unsigned_t<T>;
    result.execute = isFind           ? bfind<T>
                     : isReverse      ? unary<U, Reverse>
                     : name == "popc" ? popc<U>
                                      : clz<U>;
  });
  checkOperands(parsed, result,
                {{Expected::Out, isReverse ? getBits(type) : 32},
                 {Expected::In, getBits(type)}});
}

static void decodeField(const ParsedInstruction &parsed, Instruction &result) {
  bool isInsert = parsed.opcode[0] == "bfi";
  Parts parts(parsed);
  Type type = parts.takeType();
  parts.finish();
  if (getBits(type) < 32 || isBits(type) != isInsert ||
      !withInteger(type, [&](auto value) {
        using T = decltype(value);
        result.execute = isInsert ? bfi<std::make_unsigned_t<T>> : bfe<T>;
      }))
    parts.refuse(type);
  unsigned bits = getBits(type);
  std::vector<Expected> expected = {{Expected::Out, bits},
                                    {Expected::In, bits},
                                    {Expected::In, 32},
                                    {Expected::In, 32}};
  if (isInsert)
    expected.insert(expected.begin() + 1, {Expected::In, bits});
  checkOperands(parsed, result, expected);
}

static void decodeMask(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  int mode = parts.takeOne({"wrap", "clamp"});
  parts.finish();
  bool isMask = parsed.opcode[0] == "bmsk";
  if (mode < 0 || getBits(type) != 32 || isBits(type) != isMask)
    parts.refuse(type);
  result.detail = mode;
  result.execute = isMask           ? bmsk
                   : isSigned(type) ? szext<int32_t>
                                    : szext<uint32_t>;
  checkOperands(parsed, result, expectSame(type, 2));
}

static void decodeLop3(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  parts.finish();
  if (type != Type::B32)
    parts.refuse(type);
  result.execute = lop3;
  std::vector<Expected> expected = expectSame(type, 3);
  expected.push_back({Expected::Constant, 32});
  checkOperands(parsed, result, expected);
}

static void decodePrmt(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  int mode = parts.takeOne({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  parts.finish();
  if (type != Type::B32)
    parts.refuse(type);
  result.detail = mode + 1;
  result.execute = prmt;
  checkOperands(parsed, result, expectSame(type, 3));
}

static void decodeDp4a(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type b = parts.takeType(), a = parts.takeType();
  parts.finish();
  for (Type type : {a, b})
    if (type != Type::U32 && type != Type::S32)
      parts.refuse(type);
  if (a == Type::S32)
    result.execute =
        b == Type::S32 ? dp4a<int8_t, int8_t> : dp4a<int8_t, uint8_t>;
  else
    result.execute =
        b == Type::S32 ? dp4a<uint8_t, int8_t> : dp4a<uint8_t, uint8_t>;
  checkOperands(parsed, result, expectSame(a, 3));
}

const Opcode emulator::kArithmetic[] = {
    {"add", decodeBinary<Add>}, {"sub", decodeBinary<Sub>},
    {"mul", decodeMul},         {"mad", decodeMul},
    {"sad", decodeSad},         {"div", decodeBinary<Div>},
    {"rem", decodeBinary<Rem>}, {"min", decodeBinary<Min>},
    {"max", decodeBinary<Max>}, {"neg", decodeSign<Neg>},
    {"abs", decodeSign<Abs>},   {"and", decodeLogic<And>},
    {"or", decodeLogic<Or>},    {"xor", decodeLogic<Xor>},
    {"not", decodeNot<Not>},    {"cnot", decodeNot<IsZero>},
    {"shl", decodeShift},       {"shr", decodeShift},
    {"shf", decodeFunnel},      {"popc", decodeCount},
    {"clz", decodeCount},       {"brev", decodeCount},
    {"bfind", decodeCount},     {"bfe", decodeField},
    {"bfi", decodeField},       {"szext", decodeMask},
    {"bmsk", decodeMask},       {"lop3", decodeLop3},
    {"prmt", decodePrmt},       {"dp4a", decodeDp4a},
    {nullptr, nullptr},
};
