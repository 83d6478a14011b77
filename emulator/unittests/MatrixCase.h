//===- MatrixCase.h - Products of matrices to test --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_UNITTESTS_MATRIXCASE_H
#define FUSE_EMULATOR_UNITTESTS_MATRIXCASE_H

#include "machine/Formats.h"

#include <string>

namespace fuse::emulator {

/// A product of matrices with small integers.
struct MatrixCase {
  unsigned columns = 16;
  std::string sum = "f32", a = "bf16", b = "bf16";
  /// Swizzle in bytes.
  unsigned swizzle = 128;
  /// Number of 32-byte steps in K before the operands.
  unsigned step = 0;
  bool isATransposed = false, isBTransposed = false, isAInRegisters = false;
  /// Modifier after the shape.
  std::string modifier = "";
  int scaleA = 1, scaleB = 1;
  /// Row of the swizzle pattern at which the operands start.
  unsigned base = 0;
};

inline unsigned getBytes(const std::string &type) {
  return type == "tf32" ? 4 : type == "bf16" || type == "f16" ? 2 : 1;
}

/// An element of an operand; not negative for unsigned types.
inline int getNumber(unsigned row, unsigned k, const std::string &type) {
  int number = static_cast<int>((row * 7 + k * 5 + row * k) % 7);
  return type == "u8" ? number : number - 3;
}

inline uint32_t encode(int number, const std::string &type) {
  if (type == "bf16")
    return encodeFloat(number, kBFloat);
  if (type == "f16")
    return encodeFloat(number, kHalf);
  if (type == "e4m3")
    return encodeFloat(number, kE4M3);
  if (type == "e5m2")
    return encodeFloat(number, kE5M2);
  // The last 13 bits of TF32 are ignored.
  if (type == "tf32")
    return encodeFloat(number, kSingle) | 0x1fff;
  return static_cast<uint8_t>(number);
}

/// Number of accumulator registers of a thread.
inline unsigned countRegisters(const MatrixCase &test) {
  return test.columns / (test.sum == "f16" ? 4 : 2);
}

inline std::string printRegisters(unsigned count,
                                  const std::string &name = "%s") {
  std::string result = "{";
  for (unsigned i = 0; i < count; ++i)
    result += (i ? ", " : "") + name + std::to_string(i);
  return result + "}";
}

/// An element of the product, added to `before`.
inline int getSum(const MatrixCase &test, unsigned row, unsigned column,
                  int before = 0) {
  int sum = 0;
  for (unsigned k = 0; k < 32 / getBytes(test.a); ++k)
    sum += getNumber(row, k, test.a) * getNumber(column, k, test.b);
  return sum * test.scaleA * test.scaleB + before;
}

inline uint32_t encodeSum(int sum, const MatrixCase &test) {
  return test.sum == "f32"   ? encodeFloat(sum, kSingle)
         : test.sum == "f16" ? encodeFloat(sum, kHalf)
                             : static_cast<uint32_t>(sum);
}

/// Sets all accumulators to the same bits.
inline std::string setSums(const MatrixCase &test, uint32_t bits,
                           const std::string &name = "%s") {
  std::string text;
  for (unsigned i = 0; i < countRegisters(test); ++i)
    text += "  mov.b32 " + name + std::to_string(i) + ", " +
            std::to_string(bits) + ";\n";
  return text;
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_UNITTESTS_MATRIXCASE_H
