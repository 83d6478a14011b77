//===- StageOps.h - Operations of the stage dialect -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEOPS_H
#define STAGE_IR_STAGEOPS_H

#include "fuse/IR/FuseOps.h"
#include "stage/IR/StageAttrs.h"

#define GET_OP_CLASSES
#include "stage/IR/StageOps.h.inc"

namespace stage {

/// Whether `op` is a stage of a graph.
bool isStage(mlir::Operation *op);

/// The part of a mapping that all stages have.
struct StageMapping {
  int64_t launch;
  llvm::ArrayRef<Place> results;
};

/// The mapping of a stage, or nothing.
std::optional<StageMapping> getMapping(mlir::Operation *op);

/// The operands of the matrix product that a sum belongs to.
struct SumOperands {
  mlir::Value x, weight;
};

/// Verifies an epilogue whose first arguments are sums. The other arguments are
/// `inputs`.
mlir::LogicalResult verifyEpilogue(mlir::Operation *op, mlir::Region &epilogue,
                                   mlir::TypeRange sums,
                                   mlir::ValueRange inputs);

/// Verifies that a `stage.finish` of a sum is right for the operands of its
/// product.
mlir::LogicalResult verifyFinish(FinishOp op, SumOperands operands);

/// Whether K-slices remain in a lowered graph. Without them, its sums have any
/// order, as those of `fuse.linear`.
enum class Slices { Keep, Join };

/// Builds the layer ops of a graph at the insertion point, and returns the
/// values of its results. Leaves the graph in place. With kept slices, the
/// total of slices has a `stage.finish`.
llvm::SmallVector<mlir::Value>
lowerGraph(GraphOp graph, mlir::OpBuilder &builder, Slices slices);

/// Replaces the graphs inside `root` by their layer ops, with kept slices, and
/// returns their number.
unsigned lowerGraphs(mlir::Operation *root);

} // namespace stage

#endif // STAGE_IR_STAGEOPS_H
