//===- RowKernel.h - Kernels that take rows one by one -------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_ROWKERNEL_H
#define FUSE_CODEGEN_HOPPER_ROWKERNEL_H

#include "fuse/Codegen/Hopper/DecodeKernel.h"
#include "fuse/Schedule/RowProblem.h"

namespace fuse {

/// Builds the kernel of `problem` under `schedule` at the end of `module`.
PlannedKernel buildRowKernel(const RowProblem &problem,
                             tile::RowScheduleAttr schedule,
                             mlir::gpu::GPUModuleOp module,
                             llvm::StringRef name);

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_ROWKERNEL_H
