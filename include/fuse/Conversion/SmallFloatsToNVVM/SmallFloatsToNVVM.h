//===- SmallFloatsToNVVM.h - Conversions of f8 to NVVM ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_SMALLFLOATSTONVVM_SMALLFLOATSTONVVM_H
#define FUSE_CONVERSION_SMALLFLOATSTONVVM_SMALLFLOATSTONVVM_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTSMALLFLOATSTONVVMPASS
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_SMALLFLOATSTONVVM_SMALLFLOATSTONVVM_H
