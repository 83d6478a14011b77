//===- LayerMath.h - Layers by their contracts ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What docs/reference/numerics.md and the descriptions of the ops say, on whole
// tensors. Nothing here builds IR or comes from a lowering, so that a mistake
// in one of these is not a mistake in the other.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INTERPRETER_LAYERMATH_H
#define FUSE_INTERPRETER_LAYERMATH_H

#include "fuse/IR/FuseAttrs.h"
#include "fuse/Interpreter/Interval.h"

#include <vector>

namespace fuse {

/// The values that a tensor may have, row by row.
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<Interval> values;

  int64_t getRowSize() const { return shape.back(); }
  int64_t getNumRows() const {
    return shape.back() == 0 ? 0 : int64_t(values.size()) / shape.back();
  }
  Interval operator[](int64_t index) const { return values[index]; }
};

/// A rounding that a kernel makes, or may leave out.
struct Rounding {
  mlir::Type type;
  bool isOptional = false;

  Interval operator()(Interval value) const;
  Tensor operator()(const Tensor &tensor) const;
};

/// The parts of a norm; a tensor that is absent is null.
struct NormParts {
  NormKind kind;
  double eps;
  int64_t offset = 0;
  NormCast cast = NormCast::BeforeWeight;
  const Tensor *weight = nullptr, *bias = nullptr;
  /// Element types of the input and the weight.
  mlir::Type inputType = {}, weightType = {};
};

/// What the sums of a linear map are multiplied with, and what is added.
struct LinearParts {
  const Tensor *bias = nullptr;
  /// Whether the result is rounded before the bias is added.
  bool isBiasAfterRounding = false;
  /// Whether the operands are integers.
  bool isInteger = false;
  /// What sums of stored floats are kept in.
  Accumulator accumulator = Accumulator::Single;
  /// Whether parts of these sums may be rounded to bf16.
  bool mayRoundParts = false;
  /// Scales of stored operands: one number, one per token or output channel,
  /// or none.
  std::optional<double> inputScale, weightScale;
  const Tensor *dynamicScale = nullptr, *channelScale = nullptr;
};

Tensor normalize(const Tensor &x, const NormParts &parts, Rounding rounding);
Tensor multiplyWeights(const Tensor &x, const Tensor &weight,
                       const LinearParts &parts, Rounding rounding);
Tensor activate(Activation kind, const Tensor &x, Rounding rounding);
Tensor addTensors(const Tensor &lhs, const Tensor &rhs, Rounding rounding);
Tensor multiplyTensors(const Tensor &lhs, const Tensor &rhs, Rounding rounding);
/// The scale is a number, or has a value for each index of dimension 0.
Tensor quantize(const Tensor &x, std::optional<double> scale,
                const Tensor *channelScale, QuantOrder order, mlir::Type type);
Tensor dequantize(const Tensor &q, std::optional<double> scale,
                  const Tensor *channelScale, Rounding rounding);
/// Quantizes with scales that are measured, and returns these too.
std::pair<Tensor, Tensor> quantizeDynamically(const Tensor &x, ScaleScope scope,
                                              mlir::Type type);
Tensor rotate(const Tensor &x, const Tensor &cos, const Tensor &sin,
              int64_t heads, mlir::Type productType, Rounding rounding);

} // namespace fuse

#endif // FUSE_INTERPRETER_LAYERMATH_H
