//===- DecoderSupport.h - Helpers of all decoders ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A decoder takes the parts of an opcode that it knows. A part that is left
// over is an error, since it could change the meaning of the instruction.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_DECODERSUPPORT_H
#define FUSE_EMULATOR_INSTRUCTIONS_DECODERSUPPORT_H

#include "instructions/Decoder.h"
#include "machine/Formats.h"
#include "machine/Machine.h"

#include <initializer_list>
#include <type_traits>

namespace fuse::emulator {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  U16x2,
  S16x2,
  F16,
  BF16,
  F16x2,
  BF16x2,
  F32,
  F64,
  TF32,
  E4M3x2,
  E5M2x2,
};

/// Type::None if `name` is not a type.
Type parseType(std::string_view name);
const char *print(Type type);
/// Bits of a register that holds a value of this type; one for a predicate.
unsigned getBits(Type type);
constexpr bool isFloat(Type type) { return type >= Type::F16; }
constexpr bool isBits(Type type) {
  return type >= Type::B8 && type <= Type::B64;
}
/// Integers of at least 16 bits, signed or unsigned.
constexpr bool isInteger(Type type) {
  return type >= Type::U16 && type <= Type::S64 && type != Type::S8;
}
constexpr bool isSigned(Type type) {
  return type >= Type::S8 && type <= Type::S64;
}

/// The parts of an opcode after its name.
class Parts {
public:
  /// `first` is the number of parts that form the name.
  explicit Parts(const ParsedInstruction &parsed, size_t first = 1);

  /// Returns whether `part` is left, and removes it.
  bool take(std::string_view part);
  /// Removes the first of these parts that is left and returns its index, or
  /// -1.
  int takeOne(std::initializer_list<const char *> parts);
  /// Removes and returns the last type that is left, or Type::None.
  Type findType();
  /// The same, but throws if no type is left.
  Type takeType();
  /// `.rn`, `.rz`, `.rm` or `.rp`, or `otherwise` if there is no rounding.
  Rounding takeRounding(Rounding otherwise = Rounding::Nearest,
                        bool *isGiven = nullptr);
  /// The rank that a part such as `.2d` names, or zero.
  unsigned takeRank();
  /// Throws if any part is left.
  void finish() const;
  [[noreturn]] void refuse(Type type) const;

private:
  std::string name;
  std::vector<std::string_view> parts;
};

/// What a decoder expects of an operand.
struct Expected {
  enum Kind : uint8_t {
    Out,      ///< A register or `_`.
    In,       ///< A register or a number.
    Constant, ///< A number.
    Address,
    Vector, ///< Registers, which one alone may be without braces.
    Label,
    Any,
  };
  Kind kind;
  /// Bits of a register. Zero allows any but a predicate.
  unsigned bits = 0;
  /// Registers of a vector, or coordinates after an address.
  unsigned count = 0;
};

/// Throws if operands are not as expected. The last one may be missing if it is
/// optional. Truncates constants in `result` to the bits of their operand.
void checkOperands(const ParsedInstruction &parsed, Instruction &result,
                   const std::vector<Expected> &expected,
                   bool isLastOptional = false);

/// Expects a result and inputs of one type.
std::vector<Expected> expectSame(Type type, unsigned numInputs);

/// Defined in FloatMath.cpp: floating-point forms of opcodes of kArithmetic.
void decodeFloatArithmetic(const ParsedInstruction &parsed,
                           Instruction &result);

//===----------------------------------------------------------------------===//
// Conversion between registers and numbers
//===----------------------------------------------------------------------===//

/// A 16-bit float as it is stored in a register.
template <const Format &format>
struct Narrow {
  uint16_t bits = 0;
  double get() const { return decodeFloat(bits, format); }
};
using Half = Narrow<kHalf>;
using BFloat = Narrow<kBFloat>;

template <typename T>
T fromBits(uint64_t bits) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else if constexpr (std::is_same_v<T, float>) {
    return bitCast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return bitCast<double>(bits);
  } else {
    return T{static_cast<uint16_t>(bits)};
  }
}

template <typename T>
uint64_t toBits(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<std::make_unsigned_t<T>>(value);
  else if constexpr (std::is_same_v<T, float>)
    return bitCast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return bitCast<uint64_t>(value);
  else
    return value.bits;
}

/// Reads or writes operand `number` as a T.
template <typename T>
T get(const Thread &thread, const Instruction &instruction, unsigned number) {
  return fromBits<T>(thread.get(instruction.operands[number]));
}
template <typename T>
void set(Thread &thread, const Instruction &instruction, unsigned number,
         T value) {
  thread.set(instruction.operands[number], toBits(value));
}

/// Calls `function` with a value of the C++ type of an integer type. Untyped
/// bits are unsigned. Returns false for other types.
template <typename Function>
bool withInteger(Type type, Function &&function) {
  switch (type) {
  case Type::B8:
  case Type::U8:
    function(uint8_t());
    return true;
  case Type::S8:
    function(int8_t());
    return true;
  case Type::B16:
  case Type::U16:
    function(uint16_t());
    return true;
  case Type::S16:
    function(int16_t());
    return true;
  case Type::B32:
  case Type::U32:
    function(uint32_t());
    return true;
  case Type::S32:
    function(int32_t());
    return true;
  case Type::B64:
  case Type::U64:
    function(uint64_t());
    return true;
  case Type::S64:
    function(int64_t());
    return true;
  default:
    return false;
  }
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_DECODERSUPPORT_H
