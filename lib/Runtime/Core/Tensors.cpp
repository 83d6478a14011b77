//===- Tensors.cpp - Tensors of the caller --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Tensors.h"
#include "fuse/Runtime/Core/Failure.h"

using namespace fuse::runtime;

/// Limit in bytes, larger than any memory and far from overflow.
static constexpr int64_t kMaxBytes = int64_t(1) << 48;

[[noreturn]] static void fail(const std::string &what, const std::string &why) {
  throw Failure(FUSE_ERROR_TENSOR, what + " " + why);
}

static std::string toString(DLDataType type) {
  for (const char *name : {"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2",
                           "i64", "i32", "i8"}) {
    DLDataType candidate = *getDataType(name);
    if (candidate.code == type.code && candidate.bits == type.bits &&
        candidate.lanes == type.lanes)
      return name;
  }
  return "code " + std::to_string(type.code) + " with " +
         std::to_string(type.bits) + " bits and " + std::to_string(type.lanes) +
         " lanes";
}

size_t fuse::runtime::getNumBytes(const TensorSpec &spec,
                                  const int64_t *shape) {
  size_t bytes = spec.dtype.bits / 8;
  for (size_t dim = 0; dim < spec.shape.size(); ++dim)
    bytes *= static_cast<size_t>(shape[dim]);
  return bytes;
}

TensorView fuse::runtime::checkTensor(const DLTensor *tensor,
                                      const TensorSpec &spec,
                                      const std::string &what, bool needsData) {
  if (!tensor)
    fail(what, "is null");
  if (tensor->ndim < 0 ||
      static_cast<size_t>(tensor->ndim) != spec.shape.size())
    fail(what, "has " + std::to_string(tensor->ndim) +
                   " dimensions, expected " + toString(spec));
  DLDataType type = tensor->dtype;
  if (type.code != spec.dtype.code || type.bits != spec.dtype.bits ||
      type.lanes != spec.dtype.lanes)
    fail(what,
         "has elements of " + toString(type) + ", expected " + toString(spec));
  if (tensor->ndim > 0 && !tensor->shape)
    fail(what, "has no shape");
  bool empty = false;
  for (size_t dim = 0; dim < spec.shape.size(); ++dim) {
    int64_t size = tensor->shape[dim];
    if (size < 0)
      fail(what, "has size " + std::to_string(size) + " in dimension " +
                     std::to_string(dim));
    if (spec.shape[dim] >= 0 && size != spec.shape[dim])
      fail(what, "has size " + std::to_string(size) + " in dimension " +
                     std::to_string(dim) + ", expected " + toString(spec));
    empty |= size == 0;
  }
  // Row-major; the stride of a dimension of size 1 is arbitrary.
  int64_t bytes = spec.dtype.bits / 8, stride = 1;
  for (size_t dim = spec.shape.size(); dim-- > 0 && !empty;) {
    int64_t size = tensor->shape[dim];
    if (tensor->strides && size != 1 && tensor->strides[dim] != stride)
      fail(what, "has stride " + std::to_string(tensor->strides[dim]) +
                     " in dimension " + std::to_string(dim) +
                     ", expected row-major order, where it is " +
                     std::to_string(stride));
    if (__builtin_mul_overflow(stride, size, &stride) ||
        stride > kMaxBytes / bytes)
      fail(what, "is larger than any memory");
  }
  TensorView view;
  view.shape = tensor->shape;
  view.device = tensor->device;
  if (!tensor->data) {
    if (needsData && !empty)
      fail(what, "has no data");
    return view;
  }
  if (tensor->byte_offset > static_cast<uint64_t>(kMaxBytes))
    fail(what, "has a byte offset of " + std::to_string(tensor->byte_offset));
  view.data = static_cast<char *>(tensor->data) + tensor->byte_offset;
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<size_t>(bytes) != 0)
    fail(what, "is not aligned to its elements of " + std::to_string(bytes) +
                   " bytes");
  return view;
}

void fuse::runtime::checkManaged(const DLManagedTensorVersioned *tensor,
                                 bool writable, const std::string &what) {
  if (!tensor)
    fail(what, "is null");
  // With another major version, only the version may be read.
  if (tensor->version.major != DLPACK_MAJOR_VERSION)
    fail(what, "is of DLPack " + std::to_string(tensor->version.major) + "." +
                   std::to_string(tensor->version.minor) + ", expected " +
                   std::to_string(DLPACK_MAJOR_VERSION) + ".x");
  if (writable && (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY))
    fail(what, "is read-only");
  constexpr uint64_t padded = uint64_t(1) << 2;
  if (tensor->flags & padded)
    fail(what, "has padded elements smaller than a byte");
}

void fuse::runtime::evaluateSymbols(const Function &function,
                                    const std::vector<TensorView> &arguments,
                                    int64_t *values) {
  for (size_t i = 0; i < function.symbols.size(); ++i) {
    const Symbol &symbol = function.symbols[i];
    Symbol::Place first = symbol.places[0];
    values[i] = arguments[first.argument].shape[first.dim];
    auto place = [](Symbol::Place place) {
      return "dimension " + std::to_string(place.dim) + " of argument " +
             std::to_string(place.argument);
    };
    if (symbol.size && values[i] != *symbol.size)
      fail(place(first), "is " + std::to_string(values[i]) +
                             ", the function needs " +
                             std::to_string(*symbol.size));
    for (Symbol::Place other : symbol.places) {
      int64_t size = arguments[other.argument].shape[other.dim];
      if (size != values[i])
        fail("sizes differ:", place(first) + " is " +
                                  std::to_string(values[i]) + ", " +
                                  place(other) + " is " + std::to_string(size));
    }
  }
  for (const Check &check : function.checks)
    if (!check.holds(values))
      throw Failure(FUSE_ERROR_TENSOR,
                    "the sizes of the arguments do not fit " + function.name +
                        ": " + check.message);
}
