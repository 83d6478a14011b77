//===- Formats.h - Floating-point formats of all widths ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every format up to single precision is a subset of double. Values are
// therefore computed in double and rounded once to the target format. Results
// that double cannot hold exactly are rounded to odd first, which makes the
// second rounding correct (Boldo and Melquiond, 2008), since 53 >= 24 + 2.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_FORMATS_H
#define FUSE_EMULATOR_MACHINE_FORMATS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace fuse::emulator {

struct Format {
  unsigned exponentBits, mantissaBits;
  /// If false, the bit pattern of all ones is NaN and the patterns below it are
  /// numbers.
  bool hasInfinity = true;

  constexpr unsigned getBits() const { return 1 + exponentBits + mantissaBits; }
  constexpr uint32_t getSign() const { return uint32_t(1) << (getBits() - 1); }
  /// The NaN that instructions return.
  constexpr uint32_t getNan() const { return getSign() - 1; }
  constexpr uint32_t getLargest() const {
    return hasInfinity
               ? (((uint32_t(1) << exponentBits) - 1) << mantissaBits) - 1
               : getNan() - 1;
  }
  constexpr int getLeastExponent() const {
    return 2 - (1 << (exponentBits - 1));
  }
};

inline constexpr Format kSingle{8, 23}, kHalf{5, 10}, kBFloat{8, 7},
    kE5M2{5, 2}, kE4M3{4, 3, false}, kTF32{8, 10};

enum class Rounding : uint8_t {
  Nearest, ///< And to even.
  Zero,
  Down,
  Up,
  Away, ///< To nearest, and away from zero in the middle.
};

template <typename To, typename From>
To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline double decodeFloat(uint32_t bits, Format format) {
  if (format.mantissaBits == kSingle.mantissaBits)
    return static_cast<double>(bitCast<float>(bits));
  if (format.exponentBits == 8 && format.mantissaBits == 7)
    return static_cast<double>(bitCast<float>(bits << 16));
  uint32_t magnitude = bits & (format.getSign() - 1);
  double value;
  if (magnitude > format.getLargest())
    value = format.hasInfinity && magnitude == format.getLargest() + 1
                ? std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::quiet_NaN();
  else if (uint32_t exponent = magnitude >> format.mantissaBits)
    // Normal numbers: rebias the exponent and align the mantissa.
    value = bitCast<double>(
        (uint64_t(exponent) + 1022 + format.getLeastExponent()) << 52 |
        uint64_t(magnitude & ((uint32_t(1) << format.mantissaBits) - 1))
            << (52 - format.mantissaBits));
  else
    value = std::ldexp(magnitude, format.getLeastExponent() -
                                      static_cast<int>(format.mantissaBits));
  return bits & format.getSign() ? -value : value;
}

/// `saturate` clamps larger numbers to the largest finite one.
inline uint32_t encodeFloat(double value, Format format,
                            Rounding rounding = Rounding::Nearest,
                            bool saturate = false) {
  if (std::isnan(value))
    return format.getNan();
  if (format.mantissaBits == kSingle.mantissaBits &&
      rounding == Rounding::Nearest && !saturate)
    return bitCast<uint32_t>(static_cast<float>(value));
  uint64_t bits = bitCast<uint64_t>(value);
  bool isNegative = bits >> 63;
  uint32_t sign = isNegative ? format.getSign() : 0;
  int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  uint64_t mantissa = bits & ((uint64_t(1) << 52) - 1);
  uint32_t largest = format.getLargest();
  bool isUp = rounding == Rounding::Up
                  ? !isNegative
                  : rounding == Rounding::Down && isNegative;
  uint64_t result;
  if (exponent == 1024) {
    result = uint64_t(largest) + 1;
    rounding = Rounding::Nearest;
  } else {
    if (exponent == -1023)
      exponent = -1022;
    else
      mantissa |= uint64_t(1) << 52;
    int least = format.getLeastExponent();
    int kept = exponent > least ? exponent : least;
    int shift = kept - exponent + 52 - static_cast<int>(format.mantissaBits);
    // Beyond 60 bits only the sticky bit matters.
    uint64_t quotient = shift > 60 ? 0 : mantissa >> shift;
    uint64_t rest =
        shift > 60 ? mantissa != 0 : mantissa & ((uint64_t(1) << shift) - 1);
    uint64_t half = uint64_t(1) << ((shift > 60 ? 60 : shift) - 1);
    if (rounding == Rounding::Nearest)
      quotient += rest > half || (rest == half && (quotient & 1));
    else if (rounding == Rounding::Away)
      quotient += rest >= half;
    else
      quotient += isUp && rest != 0;
    // The implicit leading bit of the mantissa adds one to the exponent.
    result =
        (static_cast<uint64_t>(kept - least) << format.mantissaBits) + quotient;
  }
  if (result > largest) {
    bool isInward =
        rounding == Rounding::Zero ||
        ((rounding == Rounding::Up || rounding == Rounding::Down) && !isUp);
    result = saturate || isInward ? largest
             : format.hasInfinity ? uint64_t(largest) + 1
                                  : format.getNan();
  }
  return sign | static_cast<uint32_t>(result);
}

/// Rounds `rounded + error` to odd. Only the sign of `error` matters.
inline double roundToOdd(double rounded, double error) {
  uint64_t bits = bitCast<uint64_t>(rounded);
  if (error == 0 || !std::isfinite(rounded) || !std::isfinite(error) ||
      (bits & 1))
    return rounded;
  // If `rounded` is even, the neighbor on the side of the error is odd.
  bool isAway = (error > 0) == !(bits >> 63);
  return bitCast<double>(isAway ? bits + 1 : bits - 1);
}

/// The sum, rounded to odd. The error is that of Knuth's two-sum.
inline double addToOdd(double a, double b) {
  double sum = a + b;
  double other = sum - a;
  return roundToOdd(sum, (a - (sum - other)) + (b - other));
}

/// The quotient, rounded to odd. The operands have at most single precision, so
/// the remainder is exact.
inline double divideToOdd(double a, double b) {
  double quotient = a / b;
  double rest = std::fma(-quotient, b, a);
  return roundToOdd(quotient, b < 0 ? -rest : rest);
}

inline double squareRootToOdd(double a) {
  double root = std::sqrt(a);
  return roundToOdd(root, std::fma(-root, root, a));
}

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_FORMATS_H
