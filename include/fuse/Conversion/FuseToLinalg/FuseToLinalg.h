//===- FuseToLinalg.h - Layers and kernels to linalg ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H
#define FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H

#include "mlir/Pass/Pass.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace fuse {

#define GEN_PASS_DECL_CONVERTFUSETOLINALGPASS
#include "fuse/Conversion/Passes.h.inc"

/// Adds a pattern that replaces every fused op by its decomposition.
void populateFusedOpDecompositionPatterns(mlir::RewritePatternSet &patterns);

/// Adds patterns that lower layer ops. `arguments` has values in f32 that
/// replace the numbers that follow from static scales, by the op that has them.
void populateLayerToLinalgPatterns(
    mlir::RewritePatternSet &patterns,
    const llvm::DenseMap<mlir::Operation *, mlir::Value> *arguments = nullptr);

/// Adds patterns that lower function ops.
void populateFunctionToLinalgPatterns(mlir::RewritePatternSet &patterns);

} // namespace fuse

#endif // FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H
