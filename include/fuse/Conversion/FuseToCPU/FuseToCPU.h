//===- FuseToCPU.h - Fused ops to kernels for a CPU -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_FUSETOCPU_FUSETOCPU_H
#define FUSE_CONVERSION_FUSETOCPU_FUSETOCPU_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTFUSETOCPUPASS
#include "fuse/Conversion/Passes.h.inc"

/// Name of the module of CPU kernels.
constexpr llvm::StringLiteral kCPUKernelsName = "cpu_kernels";

} // namespace fuse

#endif // FUSE_CONVERSION_FUSETOCPU_FUSETOCPU_H
