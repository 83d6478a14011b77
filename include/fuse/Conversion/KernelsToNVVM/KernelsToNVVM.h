//===- KernelsToNVVM.h - GPU kernels to NVVM -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_KERNELSTONVVM_KERNELSTONVVM_H
#define FUSE_CONVERSION_KERNELSTONVVM_KERNELSTONVVM_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTKERNELSTONVVMPASS
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_KERNELSTONVVM_KERNELSTONVVM_H
