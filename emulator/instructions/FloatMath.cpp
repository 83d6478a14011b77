//===- FloatMath.cpp - Floating-point arithmetic --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.3 to 9.7.5. Approximate instructions are computed
// in double and rounded, which is more accurate than on a GPU.
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {

/// Flags in Instruction::detail, above a Rounding in the lowest bits.
enum Flag : uint64_t {
  Flush = 8,      ///< .ftz
  Saturate = 16,  ///< .sat
  Relu = 32,      ///< .relu
  KeepNan = 64,   ///< .NaN
  SignByXor = 128 ///< .xorsign.abs
};
constexpr uint64_t kRoundingMask = 7;

//===----------------------------------------------------------------------===//
// Operations, in double and rounded to odd
//===----------------------------------------------------------------------===//

struct Add {
  static double apply(double a, double b, double) { return addToOdd(a, b); }
};
struct Sub {
  static double apply(double a, double b, double) { return addToOdd(a, -b); }
};
/// The product of two 24-bit mantissas has 48 bits, so it is exact.
struct Mul {
  static double apply(double a, double b, double) { return a * b; }
};
struct Fma {
  static double apply(double a, double b, double c) {
    return addToOdd(a * b, c);
  }
};
struct Div {
  static double apply(double a, double b, double) { return divideToOdd(a, b); }
};
struct Reciprocal {
  static double apply(double a, double, double) { return divideToOdd(1, a); }
};
struct SquareRoot {
  static double apply(double a, double, double) { return squareRootToOdd(a); }
};
struct InverseRoot {
  static double apply(double a, double, double) { return 1 / std::sqrt(a); }
};
struct Exp2 {
  static double apply(double a, double, double) { return std::exp2(a); }
};
struct Log2 {
  static double apply(double a, double, double) { return std::log2(a); }
};
struct Sine {
  static double apply(double a, double, double) { return std::sin(a); }
};
struct Cosine {
  static double apply(double a, double, double) { return std::cos(a); }
};
struct HyperbolicTangent {
  static double apply(double a, double, double) { return std::tanh(a); }
};

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Replaces a subnormal by zero with its sign.
uint32_t flush(uint32_t bits, Format format) {
  uint32_t magnitude = bits & (format.getSign() - 1);
  return magnitude >> format.mantissaBits ? bits : bits & format.getSign();
}

template <const Format &format>
uint32_t encodeResult(double value, uint64_t flags) {
  if (flags & Saturate)
    value = value > 0 ? std::min(value, 1.0) : 0; // NaN, too.
  else if (flags & Relu && value <= 0)
    value = 0;
  uint32_t bits =
      encodeFloat(value, format, static_cast<Rounding>(flags & kRoundingMask));
  return flags & Flush ? flush(bits, format) : bits;
}

template <const Format &format, typename F, unsigned inputs>
uint32_t computeBits(uint64_t a, uint64_t b, uint64_t c, uint64_t flags) {
  auto decode = [&](uint64_t bits) {
    auto narrow = static_cast<uint32_t>(bits);
    if constexpr (format.getBits() == 16)
      narrow &= 0xffff;
    return decodeFloat(flags & Flush ? flush(narrow, format) : narrow, format);
  };
  return encodeResult<format>(F::apply(decode(a), inputs > 1 ? decode(b) : 0,
                                       inputs > 2 ? decode(c) : 0),
                              flags);
}

template <const Format &format, typename F, unsigned inputs, bool isPacked>
Outcome compute(Thread &thread, const Instruction &in) {
  uint64_t a = thread.get(in.operands[1]);
  uint64_t b = inputs > 1 ? thread.get(in.operands[2]) : 0;
  uint64_t c = inputs > 2 ? thread.get(in.operands[3]) : 0;
  uint64_t result = computeBits<format, F, inputs>(a, b, c, in.detail);
  if constexpr (isPacked)
    result |= uint64_t(computeBits<format, F, inputs>(a >> 16, b >> 16, c >> 16,
                                                      in.detail))
              << 16;
  thread.set(in.operands[0], result);
  return Outcome::Next;
}

/// The fast path for most instructions: round to nearest, without flags.
template <typename F>
struct Native;
template <>
struct Native<Add> {
  template <typename T>
  static T apply(T a, T b, T) {
    return a + b;
  }
};
template <>
struct Native<Sub> {
  template <typename T>
  static T apply(T a, T b, T) {
    return a - b;
  }
};
template <>
struct Native<Mul> {
  template <typename T>
  static T apply(T a, T b, T) {
    return a * b;
  }
};
template <>
struct Native<Div> {
  template <typename T>
  static T apply(T a, T b, T) {
    return a / b;
  }
};
template <>
struct Native<Fma> {
  template <typename T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
template <>
struct Native<Reciprocal> {
  template <typename T>
  static T apply(T a, T, T) {
    return 1 / a;
  }
};
template <>
struct Native<SquareRoot> {
  template <typename T>
  static T apply(T a, T, T) {
    return std::sqrt(a);
  }
};
template <>
struct Native<InverseRoot> {
  template <typename T>
  static T apply(T a, T, T) {
    return 1 / std::sqrt(a);
  }
};

template <typename T, typename F, unsigned inputs>
Outcome computeNative(Thread &thread, const Instruction &in) {
  T result = Native<F>::template apply<T>(
      get<T>(thread, in, 1), inputs > 1 ? get<T>(thread, in, 2) : T(0),
      inputs > 2 ? get<T>(thread, in, 3) : T(0));
  uint64_t bits = toBits(result);
  if (std::is_same_v<T, float> && std::isnan(result))
    bits = kSingle.getNan();
  thread.set(in.operands[0], bits);
  return Outcome::Next;
}

/// Properties of a format for min, max and similar instructions.
template <const Format &format>
struct Ordered {
  static constexpr uint64_t kSign = format.getSign();
  static constexpr uint64_t kNan = format.getNan();
  static constexpr uint64_t kInfinity = uint64_t(format.getLargest()) + 1;
  static uint64_t prepare(uint64_t bits, uint64_t flags) {
    auto narrow = static_cast<uint32_t>(bits & (kSign | (kSign - 1)));
    return flags & Flush ? flush(narrow, format) : narrow;
  }
};
struct OrderedDouble {
  static constexpr uint64_t kSign = uint64_t(1) << 63;
  static constexpr uint64_t kNan = uint64_t(0x7fff8) << 44;
  static constexpr uint64_t kInfinity = uint64_t(0x7ff) << 52;
  static uint64_t prepare(uint64_t bits, uint64_t) { return bits; }
};

/// Returns one operand unchanged. -0 is less than +0, and a number is preferred
/// to NaN.
template <typename T, bool isMax>
uint64_t choose(uint64_t a, uint64_t b, uint64_t flags) {
  a = T::prepare(a, flags);
  b = T::prepare(b, flags);
  constexpr uint64_t mask = T::kSign - 1;
  bool isNanA = (a & mask) > T::kInfinity, isNanB = (b & mask) > T::kInfinity;
  if (isNanA || isNanB)
    return (isNanA && isNanB) || flags & KeepNan ? T::kNan : isNanA ? b : a;
  uint64_t sign = 0;
  if (flags & SignByXor) {
    sign = (a ^ b) & T::kSign;
    a &= mask;
    b &= mask;
  }
  // Maps floats to integers with the same order.
  auto order = [&](uint64_t bits) {
    return bits & T::kSign ? ~bits & mask : bits | T::kSign;
  };
  bool isFirst = isMax ? order(a) > order(b) : order(a) < order(b);
  return (isFirst ? a : b) | sign;
}

template <typename T, bool isMax, bool isPacked>
Outcome chooseOne(Thread &thread, const Instruction &in) {
  uint64_t a = thread.get(in.operands[1]), b = thread.get(in.operands[2]);
  uint64_t result = choose<T, isMax>(a, b, in.detail);
  if constexpr (isPacked)
    result |= choose<T, isMax>(a >> 16, b >> 16, in.detail) << 16;
  thread.set(in.operands[0], result);
  return Outcome::Next;
}

template <typename T, bool isAbs, bool isPacked>
Outcome changeSign(Thread &thread, const Instruction &in) {
  auto change = [&](uint64_t bits) {
    bits = T::prepare(bits, in.detail);
    return isAbs ? bits & ~T::kSign : bits ^ T::kSign;
  };
  uint64_t a = thread.get(in.operands[1]);
  uint64_t result = change(a);
  if constexpr (isPacked)
    result |= change(a >> 16) << 16;
  thread.set(in.operands[0], result);
  return Outcome::Next;
}

/// The sign of the first operand with the magnitude of the second.
template <typename T>
Outcome copysign(Thread &thread, const Instruction &in) {
  thread.set(in.operands[0], (thread.get(in.operands[1]) & T::kSign) |
                                 (thread.get(in.operands[2]) & (T::kSign - 1)));
  return Outcome::Next;
}

/// Instruction::detail: the tested property.
template <typename T>
Outcome testp(Thread &thread, const Instruction &in) {
  auto value = get<T>(thread, in, 1);
  bool result = false;
  switch (in.detail) {
  case 0:
    result = std::isfinite(value);
    break;
  case 1:
    result = std::isinf(value);
    break;
  case 2:
    result = !std::isnan(value);
    break;
  case 3:
    result = std::isnan(value);
    break;
  case 4:
    result = std::isnormal(value);
    break;
  default:
    result = std::fpclassify(value) == FP_SUBNORMAL;
    break;
  }
  set<bool>(thread, in, 0, result);
  return Outcome::Next;
}

} // namespace

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

static uint64_t takeFlags(Parts &parts, Rounding rounding) {
  uint64_t flags = static_cast<uint64_t>(rounding);
  if (parts.take("ftz"))
    flags |= Flush;
  if (parts.take("sat"))
    flags |= Saturate;
  if (parts.take("relu"))
    flags |= Relu;
  return flags;
}

/// Sets the function that computes F in a type. Returns false if there is none.
template <typename F, unsigned inputs>
static bool setCompute(Instruction &result, Type type) {
  switch (type) {
  case Type::F32:
    result.execute = compute<kSingle, F, inputs, false>;
    return true;
  case Type::F16:
    result.execute = compute<kHalf, F, inputs, false>;
    return true;
  case Type::BF16:
    result.execute = compute<kBFloat, F, inputs, false>;
    return true;
  case Type::F16x2:
    result.execute = compute<kHalf, F, inputs, true>;
    return true;
  case Type::BF16x2:
    result.execute = compute<kBFloat, F, inputs, true>;
    return true;
  default:
    return false;
  }
}

/// Decodes an instruction whose result is correctly rounded.
template <typename F, unsigned inputs>
static void decodeRounded(const ParsedInstruction &parsed,
                          Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  uint64_t flags = takeFlags(parts, parts.takeRounding());
  parts.finish();
  result.detail = flags;
  bool isFma = std::is_same_v<F, Fma>;
  bool isOnlySingle = std::is_same_v<F, Div> || std::is_same_v<F, Reciprocal> ||
                      std::is_same_v<F, SquareRoot>;
  if ((flags & Relu && (!isFma || type == Type::F32)) ||
      (flags & kRoundingMask && type != Type::F32) ||
      (isOnlySingle && type != Type::F32 && type != Type::F64))
    parts.refuse(type);
  if (type == Type::F64) {
    if (flags)
      parts.refuse(type);
    result.execute = computeNative<double, F, inputs>;
  } else if (type == Type::F32 && flags == 0) {
    result.execute = computeNative<float, F, inputs>;
  } else if (!setCompute<F, inputs>(result, type)) {
    parts.refuse(type);
  }
  checkOperands(parsed, result, expectSame(type, inputs));
}

/// Decodes `.approx` and `.full`. Only some functions have forms for halves.
template <typename F, unsigned inputs, bool hasHalves = false>
static void decodeApproximate(const ParsedInstruction &parsed,
                              Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  if (!parts.take("approx") && !parts.take("full"))
    throw std::runtime_error(parsed.opcode[0] + " has no .approx");
  result.detail = takeFlags(parts, Rounding::Nearest);
  parts.finish();
  if (result.detail & (Saturate | Relu) || (type != Type::F32 && !hasHalves) ||
      !setCompute<F, inputs>(result, type))
    parts.refuse(type);
  checkOperands(parsed, result, expectSame(type, inputs));
}

static bool isApproximate(const ParsedInstruction &parsed) {
  return std::any_of(parsed.opcode.begin(), parsed.opcode.end(),
                     [](const std::string &part) {
                       return part == "approx" || part == "full";
                     });
}

/// rcp, sqrt and div have exact and approximate forms.
template <typename F, unsigned inputs>
static void decodeEither(const ParsedInstruction &parsed, Instruction &result) {
  if (isApproximate(parsed) && parsed.opcode.back() == "f32")
    return decodeApproximate<F, inputs>(parsed, result);
  // `rcp.approx.ftz.f64` uses only the upper half of its operand, and is not
  // supported.
  decodeRounded<F, inputs>(parsed, result);
}

static void decodeInverseRoot(const ParsedInstruction &parsed,
                              Instruction &result) {
  if (parsed.opcode.back() != "f64")
    return decodeApproximate<InverseRoot, 1>(parsed, result);
  Parts parts(parsed);
  Type type = parts.takeType();
  if (!parts.take("approx"))
    throw std::runtime_error("rsqrt has no .approx");
  parts.finish();
  result.execute = computeNative<double, InverseRoot, 1>;
  checkOperands(parsed, result, expectSame(type, 1));
}

/// Calls `function` with the Ordered properties of a type, and whether the type
/// is packed.
template <typename Function>
static bool withOrdered(Type type, Function &&function) {
  switch (type) {
  case Type::F32:
    function(Ordered<kSingle>(), std::false_type());
    return true;
  case Type::F64:
    function(OrderedDouble(), std::false_type());
    return true;
  case Type::F16:
    function(Ordered<kHalf>(), std::false_type());
    return true;
  case Type::BF16:
    function(Ordered<kBFloat>(), std::false_type());
    return true;
  case Type::F16x2:
    function(Ordered<kHalf>(), std::true_type());
    return true;
  case Type::BF16x2:
    function(Ordered<kBFloat>(), std::true_type());
    return true;
  default:
    return false;
  }
}

template <bool isMax>
static void decodeChoice(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  uint64_t flags = parts.take("ftz") ? Flush : 0;
  if (parts.take("NaN"))
    flags |= KeepNan;
  if (parts.take("xorsign") && parts.take("abs"))
    flags |= SignByXor;
  parts.finish();
  if ((type == Type::F64 && flags) ||
      !withOrdered(type, [&](auto ordered, auto isPacked) {
        result.execute = chooseOne<decltype(ordered), isMax, isPacked()>;
      }))
    parts.refuse(type);
  result.detail = flags;
  checkOperands(parsed, result, expectSame(type, 2));
}

template <bool isAbs>
static void decodeSign(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  result.detail = parts.take("ftz") ? Flush : 0;
  parts.finish();
  if ((type == Type::F64 && result.detail) ||
      !withOrdered(type, [&](auto ordered, auto isPacked) {
        result.execute = changeSign<decltype(ordered), isAbs, isPacked()>;
      }))
    parts.refuse(type);
  checkOperands(parsed, result, expectSame(type, 1));
}

static void decodeCopysign(const ParsedInstruction &parsed,
                           Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  parts.finish();
  if (type == Type::F32)
    result.execute = copysign<Ordered<kSingle>>;
  else if (type == Type::F64)
    result.execute = copysign<OrderedDouble>;
  else
    parts.refuse(type);
  checkOperands(parsed, result, expectSame(type, 2));
}

static void decodeTestp(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  int property = parts.takeOne(
      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  parts.finish();
  if (property < 0 || (type != Type::F32 && type != Type::F64))
    parts.refuse(type);
  result.detail = property;
  result.execute = type == Type::F32 ? testp<float> : testp<double>;
  checkOperands(parsed, result,
                {{Expected::Out, 1}, {Expected::In, getBits(type)}});
}

void emulator::decodeFloatArithmetic(const ParsedInstruction &parsed,
                                     Instruction &result) {
  static const std::unordered_map<std::string_view, Decode> decoders = {
      {"add", decodeRounded<Add, 2>}, {"sub", decodeRounded<Sub, 2>},
      {"mul", decodeRounded<Mul, 2>}, {"mad", decodeRounded<Fma, 3>},
      {"div", decodeEither<Div, 2>},  {"min", decodeChoice<false>},
      {"max", decodeChoice<true>},    {"neg", decodeSign<false>},
      {"abs", decodeSign<true>}};
  auto found = decoders.find(parsed.opcode[0]);
  if (found == decoders.end())
    throw std::runtime_error("the emulator does not know " + parsed.opcode[0] +
                             " of floats");
  found->second(parsed, result);
}

const Opcode emulator::kFloatMath[] = {
    {"fma", decodeRounded<Fma, 3>},
    {"rcp", decodeEither<Reciprocal, 1>},
    {"sqrt", decodeEither<SquareRoot, 1>},
    {"rsqrt", decodeInverseRoot},
    {"ex2", decodeApproximate<Exp2, 1, true>},
    {"lg2", decodeApproximate<Log2, 1>},
    {"sin", decodeApproximate<Sine, 1>},
    {"cos", decodeApproximate<Cosine, 1>},
    {"tanh", decodeApproximate<HyperbolicTangent, 1, true>},
    {"copysign", decodeCopysign},
    {"testp", decodeTestp},
    {nullptr, nullptr},
};
