//===- FunctionMath.h - Losses and experts by their contracts ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counterpart of LayerMath.h for function ops.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INTERPRETER_FUNCTIONMATH_H
#define FUSE_INTERPRETER_FUNCTIONMATH_H

#include "fuse/Interpreter/LayerMath.h"

namespace fuse {

/// How the losses of rows are reduced to one number.
struct LossParts {
  LossReduction reduction;
  /// Whether the label of a row is that of the next position.
  bool isCausal = false;
  int64_t ignoreIndex = -100;
  /// Divisor of the sum, or null.
  const Tensor *items = nullptr;
};

Tensor getCrossEntropy(const Tensor &logits, const Tensor &labels,
                       const LossParts &parts);

/// Routing of tokens to experts: index and factor for each of a token's places.
struct Routing {
  const Tensor &index, &weights;
  /// The type that a result and its factor promote to.
  mlir::Type promoted;
};

Tensor runExperts(const Tensor &x, const Routing &routing, const Tensor &gateUp,
                  const Tensor &down, Activation act, Rounding inner,
                  Rounding rounding);

/// Dimension i of the result is dimension `permutation[i]` of `x`.
Tensor transpose(const Tensor &x, llvm::ArrayRef<int64_t> permutation);

/// Takes every `strides[i]`-th value from `offsets[i]` on. A negative size
/// selects a whole dimension.
Tensor takeView(const Tensor &x, llvm::ArrayRef<int64_t> offsets,
                llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides);

/// The parts one after the other in dimension `dim`. Their other sizes agree.
Tensor concatenate(llvm::ArrayRef<Tensor> parts, int64_t dim);

} // namespace fuse

#endif // FUSE_INTERPRETER_FUNCTIONMATH_H
