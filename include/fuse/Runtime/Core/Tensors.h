//===- Tensors.h - Tensors of the caller ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_TENSORS_H
#define FUSE_RUNTIME_CORE_TENSORS_H

#include "fuse/Runtime/Core/Manifest.h"

#include <functional>

namespace fuse::runtime {

/// The part of a checked tensor that the code needs.
struct TensorView {
  char *data = nullptr;
  const int64_t *shape = nullptr;
  DLDevice device = {kDLCPU, 0};
};

size_t getNumBytes(const TensorSpec &spec, const int64_t *shape);

/// Throws `Failure` unless `tensor` is valid, row-major, aligned and of the
/// type and shape of `spec`. `what` names the tensor in messages. Data may be
/// null if `needsData` is false.
TensorView checkTensor(const DLTensor *tensor, const TensorSpec &spec,
                       const std::string &what, bool needsData = true);

/// Throws `Failure` unless version and flags allow reading, or writing.
void checkManaged(const DLManagedTensorVersioned *tensor, bool writable,
                  const std::string &what);

/// Computes the symbols from the shapes of arguments. Throws `Failure` if two
/// dimensions of one symbol differ.
void evaluateSymbols(const Function &function,
                     const std::vector<TensorView> &arguments, int64_t *values);

/// A tensor that an instance owns.
class HeldTensor {
public:
  HeldTensor() = default;
  explicit HeldTensor(const DLTensor &tensor)
      : tensor(tensor), shape(tensor.shape, tensor.shape + tensor.ndim) {}
  HeldTensor(HeldTensor &&other) noexcept { swap(other); }
  HeldTensor &operator=(HeldTensor &&other) noexcept {
    HeldTensor(std::move(other)).swap(*this);
    return *this;
  }
  ~HeldTensor() {
    if (release)
      release();
  }

  /// Makes the destructor release the tensor.
  void setRelease(std::function<void()> function) noexcept {
    release = std::move(function);
  }
  explicit operator bool() const { return tensor.ndim >= 0; }
  /// The returned view points to the copy of the shape and has no strides.
  DLTensor get() const {
    DLTensor view = tensor;
    view.shape = const_cast<int64_t *>(shape.data());
    view.strides = nullptr;
    return view;
  }

private:
  void swap(HeldTensor &other) noexcept {
    std::swap(tensor, other.tensor);
    std::swap(shape, other.shape);
    std::swap(release, other.release);
  }

  DLTensor tensor = {nullptr, {kDLCPU, 0}, -1, {}, nullptr, nullptr, 0};
  std::vector<int64_t> shape;
  std::function<void()> release;
};

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_TENSORS_H
