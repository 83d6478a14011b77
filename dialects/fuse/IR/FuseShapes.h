//===- FuseShapes.h - Shapes of layers and fused ops ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSESHAPES_H
#define FUSE_IR_FUSESHAPES_H

#include "fuse/IR/FuseOps.h"
#include "mlir/IR/PatternMatch.h"

namespace fuse {

/// Computes the size of a dimension of a result from those of the operands.
/// Fails if it depends on an op in a group that is not of this dialect.
llvm::FailureOr<mlir::OpFoldResult>
reifyDim(mlir::OpResult result, mlir::OpBuilder &builder, int64_t dim);

/// Computes the sizes of all results of `op`; null for those that `reifyDim`
/// cannot compute.
llvm::LogicalResult reifyShapes(mlir::Operation *op, mlir::OpBuilder &builder,
                                mlir::ReifiedRankedShapedTypeDims &shapes);

using Shapes = llvm::SmallVectorImpl<mlir::ShapedTypeComponents>;

/// Infers the shapes of the results of a layer op from the types of its
/// operands. Fails if an operand is not a tensor with features.
llvm::LogicalResult inferShapes(LinearOp::Adaptor op, Shapes &shapes);
llvm::LogicalResult inferShapes(DynamicQuantizeOp::Adaptor op, Shapes &shapes);
/// Most layers keep the shape of their first operand.
llvm::LogicalResult inferShapeOfFirst(mlir::ValueRange operands,
                                      Shapes &shapes);
template <typename AdaptorTy>
llvm::LogicalResult inferShapes(AdaptorTy op, Shapes &shapes) {
  return inferShapeOfFirst(op.getOperands(), shapes);
}

/// Adds the canonicalization patterns of layer ops and fused ops.
void populateShapePatterns(mlir::RewritePatternSet &patterns);

} // namespace fuse

#endif // FUSE_IR_FUSESHAPES_H
