//===- HostTensor.h - Tensors in host memory --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IO_HOSTTENSOR_H
#define FUSE_IO_HOSTTENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdlib>
#include <memory>
#include <string>

namespace fuse {

enum class ElementType {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3FN,
  F8E5M2,
  I64,
  I32,
  I8,
};

/// Size of an element in bytes.
size_t getSize(ElementType type);
/// The MLIR name of a type.
llvm::StringRef getName(ElementType type);
bool isFloat(ElementType type);

/// Type and shape of a tensor; dynamic sizes are -1.
struct TensorSpec {
  ElementType type = ElementType::F32;
  llvm::SmallVector<int64_t> shape;
};

/// Text such as `2x?x8xbf16`.
std::string toString(ElementType type, llvm::ArrayRef<int64_t> shape);

/// A tensor in row-major order that owns its memory.
class HostTensor {
public:
  /// Creates a tensor with uninitialized content. Fails if a size is negative
  /// or there is not enough memory.
  static llvm::Expected<HostTensor> create(ElementType type,
                                           llvm::ArrayRef<int64_t> shape);

  ElementType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getNumElements() const { return numElements; }
  size_t getNumBytes() const { return numElements * getSize(type); }
  char *getData() { return data.get(); }
  const char *getData() const { return data.get(); }

  /// An element as a double, which represents all values exactly except large
  /// i64.
  double get(int64_t index) const;
  /// Stores a value, rounded to the element type (to nearest even).
  void set(int64_t index, double value);

  HostTensor clone() const;
  /// The same values in another type. Fails if one of them is not exact.
  llvm::Expected<HostTensor> convertExactly(ElementType to) const;
  bool isBitEqual(const HostTensor &other) const;

private:
  HostTensor() = default;

  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  ElementType type = ElementType::F32;
  llvm::SmallVector<int64_t> shape;
  int64_t numElements = 0;
  std::unique_ptr<char, Free> data;
};

} // namespace fuse

#endif // FUSE_IO_HOSTTENSOR_H
