//===- DecodeKernel.h - The kernels of fused ops -------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_DECODEKERNEL_H
#define FUSE_CODEGEN_HOPPER_DECODEKERNEL_H

#include "fuse/Schedule/MlpProblem.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "tile/IR/TileOps.h"

namespace fuse {

/// A kernel and what a host needs to launch it for one op.
struct PlannedKernel {
  tile::KernelOp kernel;
  tile::PlanAttr plan;
};

/// Builds the decode kernel of `problem` under `schedule` at the end of
/// `module`. It depends on shapes and on which parts are present, not on the
/// values of scales.
PlannedKernel buildDecodeKernel(const MlpProblem &problem,
                                tile::ScheduleAttr schedule,
                                mlir::gpu::GPUModuleOp module,
                                llvm::StringRef name);

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_DECODEKERNEL_H
