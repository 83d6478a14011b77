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

/// Arguments of a launch to which its plan refers, in the form of the manifest.
struct TilePlaces {
  /// Operands, followed by results.
  llvm::SmallVector<llvm::json::Object> tensors;
  size_t numOperands = 0;
  /// Layout of the workspace and the numbers of its buffers: the zeroed buffer,
  /// and one for each of `getSizes`. Without a layout, the workspace is buffer
  /// 0.
  const class WorkspaceParts *parts = nullptr;
  llvm::SmallVector<int64_t> buffers;
  /// The number of tokens over the symbols of the function.
  llvm::json::Value tokens = nullptr;
};

/// Splits a workspace into buffers, for an op among others or for one of
/// several ranges of tokens. Zeroed bytes are in one buffer for all, after
/// those of earlier parts, because semaphores must not move. A second buffer
/// has the bytes that do not depend on the tokens. Each matrix with rows for
/// tokens has its own buffer.
class WorkspaceParts {
public:
  WorkspaceParts(mlir::DictionaryAttr plan, int64_t zeroedAt);

  /// Bytes of all buffers but the zeroed one, over the number of tokens.
  llvm::json::Array getSizes(const llvm::json::Value &tokens) const;
  /// The buffer and offset for an offset in the plan's workspace.
  llvm::json::Object getPlace(int64_t offset,
                              llvm::ArrayRef<int64_t> buffers) const;
  /// Offset at which the zeroed bytes of the next part begin.
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
  /// Appends packed weights of kernels to `packed`.
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

/// Whether a launch shares the workspace of the preceding launch.
bool sharesWorkspace(tile::LaunchOp launch);

} // namespace fuse

#endif // FUSE_ARTIFACT_LAUNCHPLANWRITER_H
