//===- TileLaunches.h - Scheduled kernels in launch plans -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_COMPILER_TILELAUNCHES_H
#define FUSE_LIB_COMPILER_TILELAUNCHES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tile/IR/TileOps.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace fuse {

/// Where a launch finds what its plan speaks of, in the form of the manifest.
struct TilePlaces {
  /// Operands, and behind them results.
  llvm::SmallVector<llvm::json::Object> tensors;
  size_t numOperands = 0;
  /// The buffer of its workspace.
  int64_t workspace = 0;
  /// Or how the workspace is cut into buffers.
  const class WorkspaceParts *parts = nullptr;
  /// The number of tokens over the symbols of the function.
  llvm::json::Value tokens = nullptr;
};

/// The workspace of the launches for one of several ranges of tokens. What is
/// zeroed lies in a buffer for all ranges, because words must not move, behind
/// what those before have there. Another buffer has what does not depend on the
/// tokens, and each matrix with rows for tokens has one of its own.
class WorkspaceParts {
public:
  WorkspaceParts(mlir::DictionaryAttr plan, int64_t zeroedAt);

  /// Bytes of all buffers but the first, over the number of tokens `s0`.
  llvm::json::Array getSizes() const;
  /// Where a place in the workspace of the plan is.
  llvm::json::Object getPlace(int64_t offset) const;
  /// Where what the next range zeroes begins.
  int64_t getZeroedEnd() const { return zeroedAt + llvm::alignTo(zeroed, 256); }

private:
  struct Matrix {
    int64_t offset, rowBytes, multiple;
  };
  int64_t zeroedAt, zeroed, fixed;
  llvm::SmallVector<Matrix> matrices;
};

/// Writes plans of tile kernels in the form of the manifest.
class TilePlanWriter {
public:
  /// Weights that kernels take packed are added to `packed`.
  explicit TilePlanWriter(llvm::json::Array &packed) : packed(packed) {}

  llvm::json::Object write(llvm::StringRef kernel, mlir::DictionaryAttr plan,
                           const TilePlaces &places);
  /// Empty unless a plan was malformed.
  llvm::StringRef getProblem() const { return problem; }
  int64_t getInt(mlir::DictionaryAttr entry, llvm::StringRef name);

private:
  llvm::json::Object getWorkspace(mlir::DictionaryAttr entry);
  llvm::json::Object getTensor(int64_t index, bool isResult);
  llvm::json::Object writeArgument(mlir::DictionaryAttr entry);
  llvm::json::Object writeMap(mlir::DictionaryAttr entry);
  llvm::json::Object writePacked(mlir::DictionaryAttr entry);

  llvm::json::Array &packed;
  const TilePlaces *places = nullptr;
  std::string problem;
};

/// Whether a launch shares the workspace of the one before it.
bool sharesWorkspace(tile::LaunchOp launch);

/// Replaces dispatches in a function by what they do for the largest range,
/// which serves fewer tokens too.
void takeLargestRanges(mlir::func::FuncOp function);

/// Whether the launches of a function can stand in one plan with those of other
/// kernels: packed weights have to be arguments.
bool canMixLaunches(mlir::func::FuncOp function);

/// The plan of a launch, and how many operands come before its results.
struct TileLaunch {
  mlir::DictionaryAttr plan;
  size_t numOperands;
};

/// Replaces tile launches in a function on tensors by launches on buffers. Each
/// has its index in `launches`, to which it is added, as `fuse.tile_plan`; it
/// takes operands, results, workspace and the number of tokens.
void lowerTileLaunches(mlir::func::FuncOp function,
                       llvm::SmallVectorImpl<TileLaunch> &launches);

} // namespace fuse

#endif // FUSE_LIB_COMPILER_TILELAUNCHES_H
