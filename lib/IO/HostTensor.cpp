//===- HostTensor.cpp - Tensors in host memory ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IO/HostTensor.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace fuse;

namespace {

struct ElementInfo {
  StringLiteral name;
  size_t size;
  const fltSemantics *semantics;
};

} // namespace

static ElementInfo getInfo(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return {"f64", 8, &APFloat::IEEEdouble()};
  case ElementType::F32:
    return {"f32", 4, &APFloat::IEEEsingle()};
  case ElementType::F16:
    return {"f16", 2, &APFloat::IEEEhalf()};
  case ElementType::BF16:
    return {"bf16", 2, &APFloat::BFloat()};
  case ElementType::F8E4M3FN:
    return {"f8E4M3FN", 1, &APFloat::Float8E4M3FN()};
  case ElementType::F8E5M2:
    return {"f8E5M2", 1, &APFloat::Float8E5M2()};
  case ElementType::I64:
    return {"i64", 8, nullptr};
  case ElementType::I32:
    return {"i32", 4, nullptr};
  case ElementType::I8:
    return {"i8", 1, nullptr};
  }
  llvm_unreachable("unknown element type");
}

size_t fuse::getSize(ElementType type) { return getInfo(type).size; }

StringRef fuse::getName(ElementType type) { return getInfo(type).name; }

bool fuse::isFloat(ElementType type) { return getInfo(type).semantics; }

std::string fuse::toString(ElementType type, ArrayRef<int64_t> shape) {
  std::string text;
  raw_string_ostream os(text);
  for (int64_t size : shape) {
    if (size < 0)
      os << "?x";
    else
      os << size << "x";
  }
  os << getName(type);
  return text;
}

Expected<HostTensor> HostTensor::create(ElementType type,
                                        ArrayRef<int64_t> shape) {
  HostTensor tensor;
  tensor.type = type;
  tensor.shape.assign(shape.begin(), shape.end());
  int64_t bytes = getSize(type);
  bool empty = is_contained(shape, 0);
  for (int64_t size : shape) {
    if (size < 0)
      return createStringError("size " + Twine(size) + " is negative");
    if (!empty && MulOverflow(bytes, size, bytes))
      return createStringError("tensor " + toString(type, shape) +
                               " does not fit into memory");
  }
  tensor.numElements = empty ? 0 : bytes / getSize(type);
  // In bytes. The longest vector loads stay within one cache line.
  constexpr size_t alignment = 64;
  size_t reserved =
      alignTo(std::max<size_t>(tensor.getNumBytes(), 1), alignment);
  tensor.data.reset(
      static_cast<char *>(std::aligned_alloc(alignment, reserved)));
  if (!tensor.data)
    return createStringError("no memory for tensor " + toString(type, shape));
  return tensor;
}

double HostTensor::get(int64_t index) const {
  ElementInfo info = getInfo(type);
  uint64_t bits = 0;
  std::memcpy(&bits, data.get() + index * info.size, info.size);
  if (!info.semantics)
    return static_cast<double>(SignExtend64(bits, info.size * 8));
  if (type == ElementType::F64)
    return bit_cast<double>(bits);
  if (type == ElementType::F32)
    return bit_cast<float>(static_cast<uint32_t>(bits));
  APFloat value(*info.semantics, APInt(info.size * 8, bits));
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

void HostTensor::set(int64_t index, double value) {
  ElementInfo info = getInfo(type);
  uint64_t bits;
  if (info.semantics) {
    APFloat rounded(value);
    bool losesInfo;
    rounded.convert(*info.semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    bits = rounded.bitcastToAPInt().getZExtValue();
  } else {
    bits = static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(value)));
  }
  std::memcpy(data.get() + index * info.size, &bits, info.size);
}

HostTensor HostTensor::clone() const {
  HostTensor copy = cantFail(create(type, shape));
  std::memcpy(copy.getData(), getData(), getNumBytes());
  return copy;
}

Expected<HostTensor> HostTensor::convertExactly(ElementType to) const {
  Expected<HostTensor> converted = create(to, shape);
  if (!converted)
    return converted.takeError();
  for (int64_t i = 0; i < numElements; ++i) {
    double value = get(i);
    if (isFloat(to) ||
        (std::nearbyint(value) == value &&
         std::fabs(value) < std::exp2(8.0 * getSize(to) - 1) + 1))
      converted->set(i, value);
    else
      converted->set(i, 0.0);
    double back = converted->get(i);
    if (back != value && !(std::isnan(back) && std::isnan(value)))
      return createStringError(Twine("value ") + std::to_string(value) +
                               " at " + Twine(i) + " is not a " + getName(to));
  }
  return converted;
}

bool HostTensor::isBitEqual(const HostTensor &other) const {
  return type == other.type && getShape() == other.getShape() &&
         std::memcmp(getData(), other.getData(), getNumBytes()) == 0;
}
