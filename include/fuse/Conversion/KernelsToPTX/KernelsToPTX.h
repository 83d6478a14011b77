//===- KernelsToPTX.h - Compile GPU kernels to PTX --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_KERNELSTOPTX_KERNELSTOPTX_H
#define FUSE_CONVERSION_KERNELSTOPTX_KERNELSTOPTX_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL_CONVERTKERNELSTOPTXPASS
#include "fuse/Conversion/Passes.h.inc"

/// Replaces each `gpu.module` by a `gpu.binary` with its PTX. Emits an error if
/// a target is missing or is not supported.
llvm::LogicalResult compileToPTX(mlir::ModuleOp module);

} // namespace fuse

#endif // FUSE_CONVERSION_KERNELSTOPTX_KERNELSTOPTX_H
