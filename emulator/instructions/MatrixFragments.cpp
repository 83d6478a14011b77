//===- MatrixFragments.cpp - Operands of tensor cores ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/MatrixFragments.h"
#include "machine/Formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fuse;
using namespace fuse::emulator;

unsigned emulator::getBytes(Element element) {
  switch (element) {
  case Element::TF32:
    return 4;
  case Element::BF16:
  case Element::F16:
    return 2;
  default:
    return 1;
  }
}

//===----------------------------------------------------------------------===//
// Forms of products
//===----------------------------------------------------------------------===//

ProductForm emulator::getForm(const Instruction &instruction) {
  ProductForm form;
  std::memcpy(&form, &instruction.detail, sizeof(form));
  return form;
}

Element emulator::parseElement(const std::string &name) {
  constexpr std::pair<const char *, Element> elements[] = {
      {"bf16", Element::BF16}, {"f16", Element::F16},   {"tf32", Element::TF32},
      {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2}, {"s8", Element::S8},
      {"u8", Element::U8}};
  for (auto [other, element] : elements)
    if (name == other)
      return element;
  throw std::runtime_error("the emulator does not know products of " + name);
}

AccumulatorType emulator::parseAccumulatorType(const std::string &name) {
  if (name == "f32")
    return AccumulatorType::F32;
  if (name == "f16")
    return AccumulatorType::F16;
  if (name == "s32")
    return AccumulatorType::S32;
  throw std::runtime_error("the emulator does not know sums of " + name);
}

/// The kind of an element type. Both operands of a product must have the same.
static int getKind(Element element) {
  switch (element) {
  case Element::E5M2:
    return static_cast<int>(Element::E4M3);
  case Element::U8:
    return static_cast<int>(Element::S8);
  default:
    return static_cast<int>(element);
  }
}

void emulator::checkTypes(ProductForm form, const char *opcode) {
  bool isInteger = getKind(form.a) == static_cast<int>(Element::S8);
  bool mayBeHalf = form.a == Element::F16 || getBytes(form.a) == 1;
  if (getKind(form.a) != getKind(form.b) ||
      isInteger != (form.sum == AccumulatorType::S32) ||
      (form.sum == AccumulatorType::F16 && !mayBeHalf) ||
      (form.isSaturated && !isInteger))
    throw std::runtime_error(std::string("there is no ") + opcode +
                             " of these types");
}

//===----------------------------------------------------------------------===//
// Fragments in registers
//===----------------------------------------------------------------------===//

/// Calls `function` with the index of each accumulator register of a lane and
/// the row and column of its value. A packed register has the column of its
/// lower half.
template <typename Function>
static void forEachAccumulator(unsigned lane, ProductForm form,
                               Function function) {
  constexpr unsigned perRow = 4, groupRows = 8;
  unsigned row = lane / perRow, column = lane % perRow * 2;
  unsigned perPart = form.sum == AccumulatorType::F16 ? 1 : 2;
  for (unsigned number = 0; number < form.getAccumulatorRegisters(); ++number)
    function(number, row + number / perPart % 2 * groupRows,
             number / perPart / 2 * 8 + column + number % perPart);
}

std::vector<double> emulator::readAccumulators(const Warp &warp,
                                               ProductForm form,
                                               const Value *registers) {
  unsigned columns = form.getColumns();
  std::vector<double> values(kWarpRows * columns);
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    forEachAccumulator(
        lane, form, [&](unsigned number, unsigned row, unsigned column) {
          auto bits =
              static_cast<uint32_t>(warp.threads[lane]->get(registers[number]));
          double *value = &values[row * columns + column];
          value[0] = decodeSum(bits, form.sum);
          if (form.sum == AccumulatorType::F16)
            value[1] = decodeSum(bits >> 16, AccumulatorType::F16);
        });
  return values;
}

void emulator::writeAccumulators(Warp &warp, ProductForm form,
                                 const Value *registers,
                                 const std::vector<double> &values) {
  unsigned columns = form.getColumns();
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    forEachAccumulator(
        lane, form, [&](unsigned number, unsigned row, unsigned column) {
          const double *value = &values[row * columns + column];
          uint32_t bits = encodeSum(value[0], form.sum);
          if (form.sum == AccumulatorType::F16)
            bits |= encodeSum(value[1], AccumulatorType::F16) << 16;
          warp.threads[lane]->set(registers[number], bits);
        });
}

/// In registers, a lane holds four adjacent bytes of a row in each half of K.
std::vector<uint8_t> emulator::readFragments(const Warp &warp,
                                             const Value *operands,
                                             unsigned numGroups) {
  constexpr unsigned perRow = 4, groupRows = 8, bytes = 4;
  std::vector<uint8_t> rows(numGroups * groupRows * kRowBytes);
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    for (unsigned number = 0; number < 2 * numGroups; ++number) {
      auto value =
          static_cast<uint32_t>(warp.threads[lane]->get(operands[number]));
      unsigned row = lane / perRow + number % numGroups * groupRows;
      std::memcpy(&rows[row * kRowBytes + number / numGroups * (kRowBytes / 2) +
                        lane % perRow * bytes],
                  &value, bytes);
    }
  return rows;
}

//===----------------------------------------------------------------------===//
// Operands in shared memory
//===----------------------------------------------------------------------===//

Descriptor::Descriptor(uint64_t bits) {
  // All fields are in units of 16 bytes.
  auto get = [&](unsigned shift) {
    constexpr uint64_t mask = (1 << 14) - 1;
    return static_cast<uint32_t>(bits >> shift & mask) * kChunkBytes;
  };
  start = get(0);
  leading = get(16);
  stride = get(32);
  base = bits >> 49 & 7;
  constexpr uint32_t sizes[] = {0, 128, 64, 32};
  swizzleBytes = sizes[bits >> 62];
}

/// A layout consists of groups of eight rows, each as long as the swizzle (16
/// bytes without one). These rows run along K, or across it if the operand is
/// transposed.
std::vector<uint32_t> Descriptor::getChunks(unsigned first, unsigned count,
                                            bool isTransposed) const {
  constexpr unsigned groupRows = 8;
  uint32_t rowBytes = swizzleBytes ? swizzleBytes : kChunkBytes;
  std::vector<uint32_t> chunks;
  auto add = [&](uint32_t offset) {
    uint32_t address = start + offset;
    if (swizzleBytes)
      address ^= (((address >> 7) - base) & (swizzleBytes / kChunkBytes - 1))
                 << 4;
    chunks.push_back(address);
  };
  if (!isTransposed) {
    for (unsigned row = first; row < first + count; ++row)
      for (unsigned i = 0; i < kRowBytes / kChunkBytes; ++i)
        add(row % groupRows * rowBytes + row / groupRows * stride +
            i * (swizzleBytes ? kChunkBytes : leading));
    return chunks;
  }
  // A chunk has eight halves. Without a swizzle the two strides are exchanged.
  unsigned perRow = rowBytes / kChunkBytes;
  unsigned depth = getDepth(Element::F16), perChunk = kChunkBytes / 2;
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned i = first / perChunk; i < (first + count) / perChunk; ++i)
      add(k % groupRows * rowBytes +
          k / groupRows * (swizzleBytes ? stride : leading) +
          i % perRow * kChunkBytes +
          i / perRow * (swizzleBytes ? leading : stride));
  return chunks;
}

std::vector<SharedRange>
emulator::getRanges(const std::vector<uint32_t> &chunks) {
  std::vector<SharedRange> ranges;
  for (uint32_t chunk : chunks) {
    if (!ranges.empty() && ranges.back().end == chunk)
      ranges.back().end += kChunkBytes;
    else if (!ranges.empty() && ranges.back().begin == chunk + kChunkBytes)
      ranges.back().begin = chunk;
    else
      ranges.push_back({chunk, chunk + kChunkBytes});
  }
  return ranges;
}

std::vector<uint8_t> emulator::gather(const Block &block,
                                      const std::vector<uint32_t> &chunks) {
  std::vector<uint8_t> bytes(chunks.size() * kChunkBytes);
  uint8_t *to = bytes.data();
  for (uint32_t chunk : chunks) {
    std::memcpy(to, block.shared.data() + chunk, kChunkBytes);
    to += kChunkBytes;
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static std::vector<double> makeTable(Format format) {
  std::vector<double> table(size_t(1) << format.getBits());
  for (uint32_t i = 0; i < table.size(); ++i)
    table[i] = decodeFloat(i, format);
  return table;
}

template <typename T>
static T load(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Calls `store` with row, k and value of each element.
template <typename T, typename Convert, typename Store>
static void forEach(const std::vector<uint8_t> &bytes, unsigned count,
                    bool isTransposed, Convert convert, Store store) {
  constexpr unsigned depth = kRowBytes / sizeof(T);
  const uint8_t *from = bytes.data();
  if (isTransposed) {
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned row = 0; row < count; ++row, from += sizeof(T))
        store(row, k, convert(load<T>(from)));
    return;
  }
  for (unsigned row = 0; row < count; ++row)
    for (unsigned k = 0; k < depth; ++k, from += sizeof(T))
      store(row, k, convert(load<T>(from)));
}

template <typename Store>
static void decodeElements(const std::vector<uint8_t> &bytes, Element element,
                           unsigned count, bool isTransposed, Store store) {
  switch (element) {
  case Element::BF16:
    return forEach<uint16_t>(
        bytes, count, isTransposed,
        [](uint16_t bits) {
          return double(bitCast<float>(uint32_t(bits) << 16));
        },
        store);
  case Element::F16: {
    static const std::vector<double> table = makeTable(kHalf);
    return forEach<uint16_t>(
        bytes, count, isTransposed,
        [data = table.data()](uint16_t bits) { return data[bits]; }, store);
  }
  case Element::TF32:
    return forEach<uint32_t>(
        bytes, count, isTransposed,
        [](uint32_t bits) {
          constexpr uint32_t dropped = (1 << 13) - 1;
          return double(bitCast<float>(bits & ~dropped));
        },
        store);
  case Element::E4M3: {
    static const std::vector<double> table = makeTable(kE4M3);
    return forEach<uint8_t>(
        bytes, count, isTransposed,
        [data = table.data()](uint8_t bits) { return data[bits]; }, store);
  }
  case Element::E5M2: {
    static const std::vector<double> table = makeTable(kE5M2);
    return forEach<uint8_t>(
        bytes, count, isTransposed,
        [data = table.data()](uint8_t bits) { return data[bits]; }, store);
  }
  case Element::S8:
    return forEach<int8_t>(
        bytes, count, isTransposed, [](int8_t value) { return double(value); },
        store);
  case Element::U8:
    return forEach<uint8_t>(
        bytes, count, isTransposed, [](uint8_t value) { return double(value); },
        store);
  }
}

std::vector<double> emulator::decodeRows(const std::vector<uint8_t> &bytes,
                                         Element element, unsigned count,
                                         bool isTransposed) {
  unsigned depth = getDepth(element);
  std::vector<double> result(size_t(count) * depth);
  decodeElements(bytes, element, count, isTransposed,
                 [&](unsigned row, unsigned k, double value) {
                   result[row * depth + k] = value;
                 });
  return result;
}

namespace {

struct Decoded {
  uint64_t key = 0;
  std::vector<uint8_t> bytes;
  std::shared_ptr<const std::vector<double>> values;
};

} // namespace

std::shared_ptr<const std::vector<double>>
emulator::decodeColumns(std::vector<uint8_t> bytes, Element element,
                        unsigned count, bool isTransposed, uint64_t key) {
  constexpr size_t numKept = 64;
  static thread_local std::array<Decoded, numKept> kept;
  key = key * 2 + isTransposed;
  key = key * 8 + static_cast<uint64_t>(element);
  constexpr uint64_t spread = 0x9e3779b97f4a7c15;
  Decoded &entry = kept[key * spread >> 58];
  // The key does not identify the bytes, so they are compared.
  if (entry.values && entry.key == key && entry.bytes == bytes)
    return entry.values;
  auto values =
      std::make_shared<std::vector<double>>(size_t(count) * getDepth(element));
  double *data = values->data();
  decodeElements(bytes, element, count, isTransposed,
                 [=](unsigned row, unsigned k, double value) {
                   data[size_t(k) * count + row] = value;
                 });
  entry = {key, std::move(bytes), values};
  return values;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// Rounds a sum as an instruction does.
static double roundSum(double value, AccumulatorType sum, bool isSaturated) {
  switch (sum) {
  case AccumulatorType::F32:
    return static_cast<float>(value);
  case AccumulatorType::F16:
    return decodeFloat(encodeFloat(value, kHalf), kHalf);
  case AccumulatorType::S32: {
    if (std::isnan(value))
      return value;
    constexpr double largest = std::numeric_limits<int32_t>::max(),
                     smallest = std::numeric_limits<int32_t>::min();
    if (isSaturated)
      return std::clamp(value, smallest, largest);
    return static_cast<int32_t>(
        static_cast<uint32_t>(static_cast<int64_t>(value)));
  }
  }
  return value;
}

/// Computes blocks of four rows and eight columns, which fill the registers of
/// AVX. `hasFma` only affects speed, since products are exact.
template <bool hasFma>
[[gnu::always_inline]] static inline void
multiplyWith(const double *a, const double *b, unsigned rows, unsigned columns,
             unsigned depth, double *result) {
  constexpr unsigned numRows = 4, numColumns = 8;
  for (unsigned row = 0; row < rows; row += numRows)
    for (unsigned column = 0; column < columns; column += numColumns) {
      double sums[numRows][numColumns] = {};
      for (unsigned k = 0; k < depth; ++k)
        for (unsigned i = 0; i < numRows; ++i) {
          double factor = a[(row + i) * depth + k];
          const double *from = b + size_t(k) * columns + column;
          for (unsigned j = 0; j < numColumns; ++j) {
            if constexpr (hasFma)
              sums[i][j] = __builtin_fma(factor, from[j], sums[i][j]);
            else
              sums[i][j] += factor * from[j];
          }
        }
      for (unsigned i = 0; i < numRows; ++i)
        for (unsigned j = 0; j < numColumns; ++j)
          result[size_t(row + i) * columns + column + j] = sums[i][j];
    }
}

#if defined(__x86_64__)
static bool hasFma() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

__attribute__((target("avx2,fma"))) static void
multiplyWithFma(const double *a, const double *b, unsigned rows,
                unsigned columns, unsigned depth, double *result) {
  multiplyWith<true>(a, b, rows, columns, depth, result);
}
#endif

void emulator::multiply(const double *a, const double *b, unsigned rows,
                        unsigned columns, unsigned depth, AccumulatorType sum,
                        bool isSaturated, double *sums) {
  std::vector<double> products(size_t(rows) * columns);
#if defined(__x86_64__)
  if (hasFma())
    multiplyWithFma(a, b, rows, columns, depth, products.data());
  else
#endif
    multiplyWith<false>(a, b, rows, columns, depth, products.data());
  size_t count = products.size();
  if (sum == AccumulatorType::F32)
    for (size_t i = 0; i < count; ++i)
      sums[i] = static_cast<float>(sums[i] + products[i]);
  else
    for (size_t i = 0; i < count; ++i)
      sums[i] = roundSum(sums[i] + products[i], sum, isSaturated);
}

/// The least exponent of normal numbers, or nullopt.
static std::optional<int> getLeastExponent(Element element) {
  switch (element) {
  case Element::BF16:
    return -126;
  case Element::F16:
  case Element::E5M2:
    return -14;
  case Element::E4M3:
    return -6;
  default:
    return std::nullopt;
  }
}

std::optional<Alignment> emulator::getAlignment(Element a, Element b,
                                                AccumulatorType sum) {
  std::optional<int> leastA = getLeastExponent(a), leastB = getLeastExponent(b);
  if (sum != AccumulatorType::F32 || !leastA || !leastB)
    return std::nullopt;
  if (getBytes(a) == 1)
    return Alignment{13, 13, *leastA, *leastB};
  return Alignment{25, 23, *leastA, *leastB};
}

/// The exponent of a normal double. Products are never subnormal doubles.
static int getExponent(double value) {
  return int(bitCast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
}

static double powerOfTwo(int exponent) {
  return bitCast<double>(uint64_t(exponent + 1023) << 52);
}

/// Infinities and NaN get the least exponent: they determine the sum in any
/// case.
static std::vector<int32_t> getExponents(const double *values, size_t count,
                                         int least) {
  constexpr int infinite = 1024;
  std::vector<int32_t> exponents(count);
  for (size_t i = 0; i < count; ++i) {
    int exponent = getExponent(values[i]);
    exponents[i] = exponent == infinite ? least : std::max(exponent, least);
  }
  return exponents;
}

/// Truncates a sum toward zero, as it is stored in a register.
static double cutSum(double value, int digits) {
  if (!std::isfinite(value) || value == 0)
    return value;
  constexpr int leastSum = -126;
  int exponent = std::max(getExponent(value), leastSum);
  return std::trunc(value * powerOfTwo(digits - exponent)) *
         powerOfTwo(exponent - digits);
}

[[gnu::always_inline]] static inline void
multiplyAlignedWith(const double *a, const double *b, const int32_t *exponentsA,
                    const int32_t *exponentsB, unsigned rows, unsigned columns,
                    unsigned depth, const Alignment &alignment, double *sums) {
  constexpr unsigned width = 8;
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned column = 0; column < columns; column += width) {
      double *result = sums + size_t(row) * columns + column;
      int32_t largest[width];
      // A previous sum of zero has the least exponent.
      for (unsigned j = 0; j < width; ++j)
        largest[j] = std::isfinite(result[j]) ? getExponent(result[j]) : -1023;
      for (unsigned k = 0; k < depth; ++k) {
        int32_t exponent = exponentsA[size_t(row) * depth + k];
        const int32_t *from = exponentsB + size_t(k) * columns + column;
        for (unsigned j = 0; j < width; ++j)
          largest[j] = std::max(largest[j], exponent + from[j]);
      }
      double scales[width], totals[width];
      for (unsigned j = 0; j < width; ++j) {
        scales[j] = powerOfTwo(alignment.digits - largest[j]);
        totals[j] = std::trunc(result[j] * scales[j]);
      }
      for (unsigned k = 0; k < depth; ++k) {
        double factor = a[size_t(row) * depth + k];
        const double *from = b + size_t(k) * columns + column;
        for (unsigned j = 0; j < width; ++j)
          totals[j] += std::trunc(factor * from[j] * scales[j]);
      }
      for (unsigned j = 0; j < width; ++j)
        result[j] =
            cutSum(totals[j] * powerOfTwo(largest[j] - alignment.digits),
                   alignment.sumDigits);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void
multiplyAlignedWithFma(const double *a, const double *b,
                       const int32_t *exponentsA, const int32_t *exponentsB,
                       unsigned rows, unsigned columns, unsigned depth,
                       const Alignment &alignment, double *sums) {
  multiplyAlignedWith(a, b, exponentsA, exponentsB, rows, columns, depth,
                      alignment, sums);
}
#endif

void emulator::multiplyAligned(const double *a, const double *b, unsigned rows,
                               unsigned columns, unsigned depth,
                               const Alignment &alignment, double *sums) {
  std::vector<int32_t> exponentsA =
      getExponents(a, size_t(rows) * depth, alignment.leastA);
  std::vector<int32_t> exponentsB =
      getExponents(b, size_t(columns) * depth, alignment.leastB);
#if defined(__x86_64__)
  if (hasFma())
    return multiplyAlignedWithFma(a, b, exponentsA.data(), exponentsB.data(),
                                  rows, columns, depth, alignment, sums);
#endif
  multiplyAlignedWith(a, b, exponentsA.data(), exponentsB.data(), rows, columns,
                      depth, alignment, sums);
}

uint32_t emulator::encodeSum(double value, AccumulatorType sum) {
  if (sum == AccumulatorType::S32)
    return std::isnan(value)
               ? uint32_t(1) << 31
               : static_cast<uint32_t>(static_cast<int32_t>(value));
  if (sum == AccumulatorType::F16)
    return encodeFloat(value, kHalf);
  // The value is already rounded.
  return std::isnan(value) ? kSingle.getNan()
                           : bitCast<uint32_t>(static_cast<float>(value));
}

double emulator::decodeSum(uint32_t bits, AccumulatorType sum) {
  if (sum == AccumulatorType::S32)
    return static_cast<int32_t>(bits);
  return decodeFloat(bits, sum == AccumulatorType::F16 ? kHalf : kSingle);
}
