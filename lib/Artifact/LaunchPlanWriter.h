//===- LaunchPlanWriter.h - Scheduled kernels in launch plans ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_LAUNCHPLANWRITER_H
#define FUSE_ARTIFACT_LAUNCHPLANWRITER_H

#include "tile/IR/TileOps.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace fuse {

/// Where a launch finds what its plan speaks of, in the form of the manifest.
struct TilePlaces {
  /// Operands, and behind them results.
  llvm::SmallVector<llvm::json::Object> tensors;
  size_t numOperands = 0;
  /// How the workspace is cut into buffers, and which they are: the one with
  /// zeros, and one for each of `getSizes`. Without, it is the first buffer.
  const class WorkspaceParts *parts = nullptr;
  llvm::SmallVector<int64_t> buffers;
  /// The number of tokens over the symbols of the function.
  llvm::json::Value tokens = nullptr;
};

/// The workspace of an op among others, or of the launches for one of several
/// ranges of tokens. What is zeroed lies in a buffer for all, because
/// semaphores must not move, behind what those before have there. Another
/// buffer has what does not depend on the tokens, and each matrix with rows for
/// tokens has one of its own.
class WorkspaceParts {
public:
  WorkspaceParts(mlir::DictionaryAttr plan, int64_t zeroedAt);

  /// Bytes of all buffers but the first, over the number of tokens.
  llvm::json::Array getSizes(const llvm::json::Value &tokens) const;
  /// Where a place in the workspace of the plan is.
  llvm::json::Object getPlace(int64_t offset,
                              llvm::ArrayRef<int64_t> buffers) const;
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

} // namespace fuse

#endif // FUSE_ARTIFACT_LAUNCHPLANWRITER_H
