//===- FuseToTile.h - Lower fused ops to tile kernels --------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_FUSETOTILE_FUSETOTILE_H
#define FUSE_CONVERSION_FUSETOTILE_FUSETOTILE_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTFUSETOTILEPASS
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_FUSETOTILE_FUSETOTILE_H
