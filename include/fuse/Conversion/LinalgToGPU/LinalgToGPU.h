//===- LinalgToGPU.h - Linalg on buffers to GPU kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_LINALGTOGPU_LINALGTOGPU_H
#define FUSE_CONVERSION_LINALGTOGPU_LINALGTOGPU_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTLINALGTOGPUPASS
#include "fuse/Conversion/Passes.h.inc"

} // namespace fuse

#endif // FUSE_CONVERSION_LINALGTOGPU_LINALGTOGPU_H
