//===- InitAllDialects.h - Register what fuse works with --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INITALLDIALECTS_H
#define FUSE_INITALLDIALECTS_H

#include "fuse/IR/FuseDialect.h"
#include "fuse/Slots/KernelRegistry.h"
#include "mlir/IR/DialectRegistry.h"
#include "nn/IR/NNDialect.h"
#include "stage/IR/StageDialect.h"
#include "tile/IR/TileDialect.h"

namespace fuse {

/// Registers the dialects of this project, with the kernels that fuse has for
/// slots. Upstream dialects and extensions
/// are the caller's choice; passes name those that they create.
inline void registerAllDialects(mlir::DialectRegistry &registry) {
  registry
      .insert<FuseDialect, NNDialect, stage::StageDialect, tile::TileDialect>();
  registerKernels(registry);
}

} // namespace fuse

#endif // FUSE_INITALLDIALECTS_H
