//===- TileLaunches.h - Scheduled ops in launch plans -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheduled op is one or more adjacent `tile.launch` ops, or a
// `tile.dispatch` with such launches for each range of its number of tokens.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_LOWERING_TILELAUNCHES_H
#define FUSE_TRANSFORMS_LOWERING_TILELAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/AffineExpr.h"
#include "tile/IR/TileOps.h"

namespace fuse {

/// Splits the workspace of an op into buffers. Zeroed bytes are in one buffer
/// for all ops, because semaphores must not move. A second buffer has the bytes
/// that do not depend on the tokens. Each matrix with rows for tokens has its
/// own buffer.
class WorkspaceParts {
public:
  /// `zeroedAt` is the offset in the buffer of zeroed bytes.
  WorkspaceParts(tile::PlanAttr plan, int64_t zeroedAt);

  /// Bytes of all buffers but the zeroed one, over the number of tokens.
  llvm::SmallVector<mlir::AffineExpr> getSizes(mlir::AffineExpr tokens) const;
  /// The index in `buffers` and the offset there of an offset in the workspace.
  /// Index 0 is the zeroed buffer, and the others are those of `getSizes`.
  std::pair<size_t, int64_t> getPlace(int64_t offset) const;

private:
  int64_t zeroedAt, zeroed, fixed;
  llvm::SmallVector<tile::TokenMatrixAttr> matrices;
};

/// The launches of a scheduled op up to a number of tokens.
struct TileRange {
  int64_t upTo;
  llvm::SmallVector<tile::LaunchOp> launches;
  std::optional<WorkspaceParts> parts;
};

/// A scheduled op of a function.
struct TileOp {
  mlir::Location loc;
  /// Its first input, which has a row for each token, and their number.
  mlir::Value rows;
  mlir::AffineExpr tokens;
  llvm::SmallVector<TileRange> ranges;
  bool isDispatch;
};

/// A branch around a step: the step runs if `condition` equals `value`.
struct HostBranch {
  mlir::Value condition;
  bool value;
};

/// A step of a function: a launch of the portable path, or a scheduled op.
struct HostStep {
  mlir::gpu::LaunchFuncOp launch;
  std::optional<TileOp> tile;
  /// The outermost branch comes first.
  llvm::SmallVector<HostBranch> branches = {};
};

/// The steps of a function on buffers in their order. Emits an error if a
/// launch cannot be in a plan.
llvm::FailureOr<std::vector<HostStep>>
getHostSteps(mlir::func::FuncOp function);

} // namespace fuse

#endif // FUSE_TRANSFORMS_LOWERING_TILELAUNCHES_H
