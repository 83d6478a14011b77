//===- FuseToLinalg.h - Layers and kernels to linalg ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H
#define FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H

#include "mlir/Pass/Pass.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace fuse {

#define GEN_PASS_DECL_CONVERTFUSETOLINALGPASS
#include "fuse/Conversion/Passes.h.inc"

/// Adds a pattern that replaces every fused op by its decomposition.
void populateFusedOpDecompositionPatterns(mlir::RewritePatternSet &patterns);

/// Adds patterns that lower layer ops.
void populateLayerToLinalgPatterns(mlir::RewritePatternSet &patterns);

/// Adds patterns that lower function ops.
void populateFunctionToLinalgPatterns(mlir::RewritePatternSet &patterns);

} // namespace fuse

#endif // FUSE_CONVERSION_FUSETOLINALG_FUSETOLINALG_H
