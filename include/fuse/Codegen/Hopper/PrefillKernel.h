//===- PrefillKernel.h - Kernels for many tokens -------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_PREFILLKERNEL_H
#define FUSE_CODEGEN_HOPPER_PREFILLKERNEL_H

#include "fuse/Codegen/Hopper/DecodeKernel.h"
#include "fuse/Schedule/PrefillSchedule.h"

namespace fuse {

/// Builds the kernels of `problem` under `schedule` at the end of `module`, in
/// the order in which they are launched: norm, GEMM1, GEMM2.
llvm::SmallVector<PlannedKernel> buildPrefillKernels(
    const MlpProblem &problem, tile::PrefillScheduleAttr schedule,
    mlir::gpu::GPUModuleOp module, llvm::function_ref<std::string()> getName);

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_PREFILLKERNEL_H
