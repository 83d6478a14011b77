//===- LayerBuilder.h - Build the linalg ops of one layer -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_CONVERSION_FUSETOLINALG_LAYERBUILDER_H
#define FUSE_LIB_CONVERSION_FUSETOLINALG_LAYERBUILDER_H

#include "fuse/Codegen/ElementMath.h"
#include "fuse/IR/FuseAttrs.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace fuse {

/// How a rank-2 op reads an operand: at (row, column), along only one of these
/// dimensions, or always its single element.
enum class Access { Full, PerRow, PerColumn, Single };

struct LayerInput {
  mlir::Value value;
  Access access = Access::Full;
  /// Instead of `access`, if it is not null.
  mlir::AffineMap map = {};
};

/// Computes one element from block arguments.
using BodyFn = llvm::function_ref<mlir::Value(mlir::ImplicitLocOpBuilder &,
                                              mlir::ValueRange)>;

/// Builds the ops of one layer on rank-2 views of its tensors.
class LayerBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// `shapes` are the shapes of the layer's tensors; they must be compatible.
  /// The first `numRowDims` dimensions are rows and the others columns.
  LayerBuilder(mlir::OpBuilder &builder, mlir::Location loc,
               llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes,
               unsigned numRowDims);

  /// The rank-2 view of an operand. Its last size may differ from that of the
  /// layer, as for the operand of a linear.
  mlir::Value flatten(mlir::Value operand);
  /// Gives `rows` the shape and the type of a result of the layer.
  mlir::Value restore(mlir::Value rows, mlir::RankedTensorType type);

  /// The same for a tensor with one entry per row, whose shape is that of the
  /// layer without the last dimension. A tensor with a single entry does not
  /// change.
  mlir::Value flattenPerToken(mlir::Value operand);
  mlir::Value restorePerToken(mlir::Value vector, mlir::RankedTensorType type);

  /// Builds an elementwise op with the shape of the first input, which is
  /// `Full`.
  mlir::Value elementwise(mlir::Type element, llvm::ArrayRef<LayerInput> inputs,
                          BodyFn body);
  /// Builds an elementwise op on a vector.
  mlir::Value elementwiseOnRows(mlir::Value vector, BodyFn body);
  /// Builds a sum over the columns in f32. The last argument of the body is the
  /// partial sum.
  mlir::Value sumOfRows(llvm::ArrayRef<LayerInput> inputs, BodyFn body);
  /// Builds a reduction of a vector to one f32 value. The last argument of the
  /// body is the partial result, initially 0.
  mlir::Value reduceVector(mlir::Value vector, BodyFn body);
  /// The largest magnitude of each group of `size` consecutive columns.
  mlir::Value maxOfGroups(mlir::Value x, int64_t size);
  /// `sum_k x[m, k] * weight[n, k]` in f32 or i32.
  mlir::Value product(mlir::Value x, mlir::Value weight);
  /// The real values of a weight of 4 bits, with elements of type `element`.
  mlir::Value unpack(mlir::Value q, mlir::ValueRange scales, QuantAttr quant,
                     mlir::Type element);
  /// The product in f32, with the sum of each block of `quant` multiplied by
  /// its two scales.
  mlir::Value productOfBlocks(mlir::Value x, mlir::Value weight,
                              mlir::Value inputScale, mlir::Value weightScale,
                              QuantAttr quant);

private:
  mlir::Value empty(llvm::ArrayRef<int64_t> shape, mlir::Type element,
                    mlir::Value rows);
  mlir::Value zeros(llvm::ArrayRef<int64_t> shape, mlir::Type element,
                    mlir::Value rows);
  mlir::Value generic(mlir::ValueRange inputs, mlir::Value init,
                      llvm::ArrayRef<mlir::AffineMap> maps,
                      llvm::ArrayRef<mlir::utils::IteratorType> iterators,
                      BodyFn body);

  llvm::SmallVector<int64_t> shape;
  unsigned numRowDims;
  /// The first operand of the layer, from which dynamic sizes are read.
  mlir::Value anchor;
};

} // namespace fuse

#endif // FUSE_LIB_CONVERSION_FUSETOLINALG_LAYERBUILDER_H
