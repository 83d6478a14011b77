//===- LayerMath.h - Layers by their contracts ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements docs/reference/numerics.md and the descriptions of the ops on
// whole tensors. It builds no IR and shares no code with the lowerings, so a
// mistake in one is not a mistake in the other.
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

/// A rounding that a kernel makes. An optional rounding may be omitted.
struct Rounding {
  mlir::Type type;
  bool isOptional = false;

  Interval operator()(Interval value) const;
  Tensor operator()(const Tensor &tensor) const;
};

/// Parameters of a norm. Absent tensors are null.
struct NormParts {
  NormKind kind;
  double eps;
  int64_t offset = 0;
  NormCast cast = NormCast::BeforeWeight;
  const Tensor *weight = nullptr, *bias = nullptr;
  /// Element types of the input and the weight.
  mlir::Type inputType = {}, weightType = {};
};

/// Scales, bias and accumulation of a linear map.
struct LinearParts {
  const Tensor *bias = nullptr;
  /// Whether the result is rounded before the bias is added.
  bool isBiasAfterRounding = false;
  /// Whether the operands are integers.
  bool isInteger = false;
  /// Accumulator for sums of stored floats.
  Accumulator accumulator = Accumulator::Single;
  /// Whether partial sums may be rounded to bf16.
  bool mayRoundParts = false;
  /// Scales of stored operands: one number, one per token or output channel, or
  /// none.
  std::optional<double> inputScale, weightScale;
  const Tensor *dynamicScale = nullptr, *channelScale = nullptr;
  /// Granularities of the scales, which are then tensors.
  QuantAttr quant = {};
};

Tensor normalize(const Tensor &x, const NormParts &parts, Rounding rounding);
Tensor multiplyWeights(const Tensor &x, const Tensor &weight,
                       const LinearParts &parts, Rounding rounding);
Tensor activate(Activation kind, const Tensor &x, Rounding rounding);
Tensor addTensors(const Tensor &lhs, const Tensor &rhs, Rounding rounding);
Tensor multiplyTensors(const Tensor &lhs, const Tensor &rhs, Rounding rounding);
/// The scale is one number, or one per index of dimension 0.
Tensor quantize(const Tensor &x, std::optional<double> scale,
                const Tensor *channelScale, QuantOrder order, mlir::Type type);
Tensor dequantize(const Tensor &q, std::optional<double> scale,
                  const Tensor *channelScale, Rounding rounding);
/// Real values of a weight of 4 bits. Scales of a group, zero points and the
/// scale of the tensor are in the order of the operands.
Tensor dequantizeWeight(const Tensor &q, llvm::ArrayRef<const Tensor *> scales,
                        QuantAttr quant, Rounding rounding);
/// Quantizes with dynamic scales, and returns the scales as the second tensor.
/// `quant` is null for the arithmetic that `fuse.dynamic_quantize` has without
/// it.
std::pair<Tensor, Tensor> quantizeDynamically(const Tensor &x, ScaleScope scope,
                                              QuantAttr quant, mlir::Type type);
Tensor rotate(const Tensor &x, const Tensor &cos, const Tensor &sin,
              int64_t heads, mlir::Type productType, Rounding rounding);

} // namespace fuse

#endif // FUSE_INTERPRETER_LAYERMATH_H
