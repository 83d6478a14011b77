//===- Passes.h - Conversion passes -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_PASSES_H
#define FUSE_CONVERSION_PASSES_H

#include "fuse/Conversion/FuseToCPU/FuseToCPU.h"
#include "fuse/Conversion/FuseToLinalg/FuseToLinalg.h"
#include "fuse/Conversion/FuseToTile/FuseToTile.h"
#include "fuse/Conversion/KernelsToNVVM/KernelsToNVVM.h"
#include "fuse/Conversion/KernelsToPTX/KernelsToPTX.h"
#include "fuse/Conversion/LinalgToGPU/LinalgToGPU.h"
#include "fuse/Conversion/SmallFloatsToNVVM/SmallFloatsToNVVM.h"
#include "fuse/Conversion/TileToNVVM/TileToNVVM.h"

namespace fuse {

#define GEN_PASS_REGISTRATION
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_PASSES_H
