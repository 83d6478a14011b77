//===- PlanBuilder.h - Writer of launch plans -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_LOWERING_PLANBUILDER_H
#define FUSE_TRANSFORMS_LOWERING_PLANBUILDER_H

#include "LaunchSizes.h"
#include "TileLaunches.h"

#include <set>

namespace fuse {

/// Writes the plan of one function. If it has scheduled ops, the workspace
/// begins with the buffer of zeroed bytes.
class PlanBuilder {
public:
  PlanBuilder(mlir::func::FuncOp function, std::vector<HostStep> &steps)
      : function(function), builder(function.getContext()), sizes(function),
        steps(steps) {}

  /// The plan, or null after an error.
  mlir::DictionaryAttr build();

private:
  mlir::NamedAttribute entry(llvm::StringRef name, mlir::Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  mlir::NamedAttribute entry(llvm::StringRef name, int64_t value) {
    return entry(name, builder.getI64IntegerAttr(value));
  }
  llvm::FailureOr<mlir::AffineExpr> getBytes(mlir::memref::AllocOp alloc);
  llvm::FailureOr<mlir::Attribute> getArgument(mlir::Value value);
  llvm::FailureOr<mlir::Attribute> getLaunch(mlir::gpu::LaunchFuncOp launch);
  /// Adds the condition of a step to its launch.
  llvm::FailureOr<mlir::Attribute> guard(mlir::Attribute launch,
                                         const HostStep &step);
  mlir::AffineMap getMap(llvm::ArrayRef<mlir::AffineExpr> results) {
    return mlir::AffineMap::get(0, sizes.getSymbols().size(), results,
                                builder.getContext());
  }

  // Scheduled ops.
  llvm::LogicalResult layOut();
  void findBounds();
  const TileRange &getRange(const TileOp &op, int64_t tokens) const;
  llvm::SmallVector<unsigned>
  addBuffers(const TileOp &op, const TileRange &range,
             llvm::SmallVectorImpl<mlir::AffineExpr> &buffers) const;
  llvm::FailureOr<mlir::Attribute> getPacked(tile::PackedAttr packed,
                                             tile::LaunchOp launch);
  llvm::FailureOr<mlir::Attribute>
  getTileArgument(mlir::Attribute argument, tile::LaunchOp launch,
                  const TileOp &op, const TileRange &range,
                  llvm::ArrayRef<unsigned> buffers);
  llvm::FailureOr<mlir::Attribute>
  getTileLaunch(tile::LaunchOp launch, const TileOp &op, const TileRange &range,
                llvm::ArrayRef<unsigned> buffers);
  llvm::LogicalResult addRange(int64_t upTo, mlir::NamedAttrList &plan);

  mlir::func::FuncOp function;
  mlir::Builder builder;
  LaunchSizes sizes;
  std::vector<HostStep> &steps;
  /// Buffers of the function, and their numbers.
  llvm::SmallVector<mlir::AffineExpr> buffers;
  llvm::DenseMap<mlir::Value, unsigned> workspace;
  /// The globals that launches read.
  llvm::SetVector<mlir::Attribute> constants;
  /// Launches of the portable path, which all ranges have.
  llvm::DenseMap<mlir::Operation *, mlir::Attribute> portable;
  /// Packed weights, each once.
  llvm::SetVector<mlir::Attribute> packed;
  int64_t zeroed = 0;
  /// Whether a single op is all of the function. It may then overlap with what
  /// runs before the function.
  bool isWhole = false;
  /// The number of tokens that selects a range, or null if there is one range.
  mlir::AffineExpr dispatched;
  /// Numbers of tokens that have a limit. The dispatched one comes first.
  llvm::SetVector<mlir::AffineExpr> limited;
  /// The ends of the ranges of the plan.
  std::set<int64_t> bounds;
};

} // namespace fuse

#endif // FUSE_TRANSFORMS_LOWERING_PLANBUILDER_H
