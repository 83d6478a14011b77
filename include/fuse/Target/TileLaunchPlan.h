//===- TileLaunchPlan.h - Tile launches as JSON -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_TILELAUNCHPLAN_H
#define FUSE_TARGET_TILELAUNCHPLAN_H

#include "mlir/Support/LLVM.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace fuse {

/// Writes the PTX of the kernels of `module` and the plan of each launch as one
/// JSON object. The module is the output of the Hopper pipeline: launches, and
/// binaries with PTX.
llvm::LogicalResult translateToLaunchPlan(mlir::ModuleOp module,
                                          llvm::raw_ostream &os);

/// Registers the translation for fuse-translate.
void registerLaunchPlanTranslation();

} // namespace fuse

#endif // FUSE_TARGET_TILELAUNCHPLAN_H
