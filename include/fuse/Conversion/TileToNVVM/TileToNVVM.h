//===- TileToNVVM.h - Lower tile ops to nvvm ------------------ -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_TILETONVVM_TILETONVVM_H
#define FUSE_CONVERSION_TILETONVVM_TILETONVVM_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTTILETONVVMPASS
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_TILETONVVM_TILETONVVM_H
