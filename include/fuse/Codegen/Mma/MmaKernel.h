//===- MmaKernel.h - Kernels with warp-level products -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_MMA_MMAKERNEL_H
#define FUSE_CODEGEN_MMA_MMAKERNEL_H

#include "fuse/Codegen/Hopper/DecodeKernel.h"
#include "fuse/Schedule/MmaSchedule.h"

namespace fuse {

/// Builds the kernels of `problem` under `schedule` at the end of `module`, in
/// the order in which they are launched.
llvm::SmallVector<PlannedKernel>
buildMmaKernels(const MlpProblem &problem, tile::MmaScheduleAttr schedule,
                mlir::gpu::GPUModuleOp module,
                llvm::function_ref<std::string()> getName);

} // namespace fuse

#endif // FUSE_CODEGEN_MMA_MMAKERNEL_H
