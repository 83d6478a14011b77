//===- WeightViews.h - Weights that are parts of arguments ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_WEIGHTVIEWS_H
#define FUSE_SCHEDULE_WEIGHTVIEWS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace fuse {

/// Elements of a tensor that form a box, and their places in a source tensor.
struct ViewBox {
  mlir::Value source;
  /// Element i of the box is element `offset + sum(i * strides)` of the source
  /// in row-major order.
  int64_t offset = 0;
  /// Position of the box in the tensor.
  llvm::SmallVector<int64_t, 2> at, sizes, strides;

  /// Whether the box is all of the source, in its shape.
  bool isWhole() const;
};

/// A tensor as boxes that fill it without overlap.
struct WeightView {
  llvm::SmallVector<ViewBox, 1> boxes;

  bool isWhole() const { return boxes.size() == 1 && boxes[0].isWhole(); }
};

/// A tensor as it is.
ViewBox getWholeBox(mlir::Value tensor);

/// Follows slices, transposes, concatenations, casts and unit dimensions with
/// constant sizes. What another op computes is a box of itself.
WeightView getWeightView(mlir::Value tensor);

/// Whether all sources are arguments, or parameters of a model, which become
/// arguments. A host can pack such a view before the first call.
bool isViewOfArguments(const WeightView &view);

/// The list of `#tile.box` of a view. `number` numbers its sources.
mlir::ArrayAttr getBoxes(mlir::MLIRContext *context, const WeightView &view,
                         llvm::function_ref<int64_t(mlir::Value)> number);

} // namespace fuse

#endif // FUSE_SCHEDULE_WEIGHTVIEWS_H
