//===- Values.cpp - Random tensors and their comparison -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Values.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Manifest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fuse;
using namespace fuse::measure;

size_t measure::getElementBytes(std::string_view element) {
  std::optional<DLDataType> type = runtime::getDataType(element);
  if (!type)
    throw runtime::Failure(FUSE_ERROR_FORMAT, "there are no tensors of '" +
                                                  std::string(element) + "'");
  return type->bits / 8;
}

namespace {

/// A binary floating-point type of at most 16 bits.
struct SmallFloat {
  std::string_view element;
  int exponentBits, mantissaBits;
  /// Whether the largest exponent has finite values, with NaN as the last code
  /// only.
  bool finiteOnly;
};

} // namespace

static constexpr SmallFloat kSmallFloats[] = {{"bf16", 8, 7, false},
                                              {"f16", 5, 10, false},
                                              {"f8E4M3FN", 4, 3, true},
                                              {"f8E5M2", 5, 2, false}};

static double decode(const SmallFloat &type, uint32_t bits) {
  int mantissa = int(bits & ((1u << type.mantissaBits) - 1));
  int last = (1 << type.exponentBits) - 1;
  int exponent = int(bits >> type.mantissaBits) & last;
  bool negative = (bits >> (type.exponentBits + type.mantissaBits) & 1) != 0;
  double value;
  bool allOnes = mantissa == (1 << type.mantissaBits) - 1;
  if (exponent == last && (!type.finiteOnly || allOnes))
    value = mantissa == 0 && !type.finiteOnly
                ? std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::quiet_NaN();
  else
    value = std::ldexp(exponent == 0 ? mantissa
                                     : mantissa + (1 << type.mantissaBits),
                       std::max(exponent, 1) - (last >> 1) - type.mantissaBits);
  return negative ? -value : value;
}

template <typename T>
static double readAs(const char *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return static_cast<double>(value);
}

double measure::readValue(std::string_view element, const char *data) {
  for (const SmallFloat &type : kSmallFloats)
    if (element == type.element) {
      uint16_t bits = 0;
      std::memcpy(&bits, data, (type.exponentBits + type.mantissaBits + 1) / 8);
      return decode(type, bits);
    }
  if (element == "f32")
    return readAs<float>(data);
  if (element == "f64")
    return readAs<double>(data);
  switch (getElementBytes(element)) {
  case 1:
    return readAs<int8_t>(data);
  case 4:
    return readAs<int32_t>(data);
  default:
    return readAs<int64_t>(data);
  }
}

void measure::fillFromPool(char *data, size_t count, size_t elementBytes,
                           std::string_view pool, uint64_t seed) {
  size_t size = pool.size() / elementBytes;
  if (size * elementBytes != pool.size() || (size == 0 && count > 0))
    throw runtime::Failure(FUSE_ERROR_FORMAT,
                           "a pool of " + std::to_string(pool.size()) +
                               " bytes has no whole elements of " +
                               std::to_string(elementBytes));
  uint64_t state = seed;
  for (size_t i = 0; i < count; ++i) {
    // splitmix64: consecutive numbers pass through a mixing function.
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    size_t index = (z ^ (z >> 31)) % size;
    // Special-case common sizes to avoid a call of memcpy.
    const char *source = pool.data() + index * elementBytes;
    if (elementBytes == 1)
      data[i] = *source;
    else if (elementBytes == 2)
      std::memcpy(data + i * 2, source, 2);
    else
      std::memcpy(data + i * elementBytes, source, elementBytes);
  }
}

/// Rank of an element among all finite values of its type. Neighbors differ by
/// one, and both zeros have the same rank.
static int64_t getRank(std::string_view element, const char *data,
                       size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, bytes);
  uint64_t sign = uint64_t(1) << (bytes * 8 - 1);
  if (element.front() == 'i')
    return int64_t((bits ^ sign) - sign);
  auto magnitude = int64_t(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

Comparison measure::compare(std::string_view element, const std::string &actual,
                            const std::string &expected) {
  size_t bytes = getElementBytes(element);
  if (actual.size() != expected.size() || actual.size() % bytes != 0)
    throw runtime::Failure(FUSE_ERROR_INTERNAL,
                           "tensors of " + std::to_string(actual.size()) +
                               " and " + std::to_string(expected.size()) +
                               " bytes are compared");
  Comparison result;
  result.values = actual.size() / bytes;
  double squares = 0, energy = 0, difference = 0;
  size_t finite = 0;
  for (size_t i = 0; i < result.values; ++i)
    if (double y = readValue(element, &expected[i * bytes]); std::isfinite(y)) {
      squares += y * y;
      ++finite;
    }
  double typical = finite > 0 ? std::sqrt(squares / double(finite)) : 0;
  for (size_t i = 0; i < result.values; ++i) {
    double x = readValue(element, &actual[i * bytes]);
    double y = readValue(element, &expected[i * bytes]);
    bool same = std::isnan(x) ? std::isnan(y)
                              : std::memcmp(&actual[i * bytes],
                                            &expected[i * bytes], bytes) == 0;
    result.different += !same;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      result.specials += !same;
      continue;
    }
    int64_t from = getRank(element, &actual[i * bytes], bytes);
    int64_t to = getRank(element, &expected[i * bytes], bytes);
    // The distance between 64-bit ranks may overflow; it then counts as large.
    uint64_t distance = uint64_t(std::max(from, to)) - std::min(from, to);
    size_t bin = 0;
    while (distance >> bin != 0 && bin + 1 < result.ulps.size())
      ++bin;
    ++result.ulps[bin];
    double apart = std::fabs(x - y);
    difference += apart * apart;
    energy += x * x + y * y;
    result.maxAbsolute = std::max(result.maxAbsolute, apart);
    if (apart == 0)
      continue;
    double part = apart / (typical + std::max(std::fabs(x), std::fabs(y)));
    if (part > result.maxElement) {
      result.maxElement = part;
      result.place = i;
    }
  }
  if (energy > 0)
    result.energy = difference / energy;
  return result;
}

std::vector<size_t> measure::findOutside(std::string_view element,
                                         const std::string &actual,
                                         std::string_view contract) {
  size_t bytes = getElementBytes(element), count = actual.size() / bytes;
  if (contract.size() != count * 2 * sizeof(double))
    throw runtime::Failure(FUSE_ERROR_FORMAT,
                           "a contract of " + std::to_string(contract.size()) +
                               " bytes is not of " + std::to_string(count) +
                               " values");
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    double range[2], value = readValue(element, &actual[i * bytes]);
    std::memcpy(range, &contract[i * sizeof(range)], sizeof(range));
    bool isAllowed =
        std::isnan(range[0])
            ? std::isnan(value)
            : range[0] > range[1] || (range[0] <= value && value <= range[1]);
    if (!isAllowed)
      places.push_back(i);
  }
  return places;
}
