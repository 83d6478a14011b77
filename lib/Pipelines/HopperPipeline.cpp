//===- HopperPipeline.cpp - Fused ops to PTX for sm_90a -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToTile/FuseToTile.h"
#include "fuse/Conversion/KernelsToPTX/KernelsToPTX.h"
#include "fuse/Conversion/TileToNVVM/TileToNVVM.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fuse;

void fuse::buildHopperPipeline(OpPassManager &pm,
                               const HopperPipelineOptions &options) {
  LowerSlotsPassOptions slots;
  slots.device = "gpu";
  slots.chip = "sm_90a";
  pm.addPass(createLowerSlotsPass(slots));
  SelectSchedulesPassOptions selection;
  selection.tokens = options.tokens;
  selection.dispatch = options.dispatch;
  selection.multiprocessors = options.multiprocessors;
  selection.table = options.table;
  pm.addPass(createSelectSchedulesPass(selection));
  pm.addPass(createConvertFuseToTilePass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (options.stage == HopperStage::Tile)
    return;

  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createConvertTileToNVVMPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertToLLVMPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  if (options.stage == HopperStage::NVVM)
    return;

  GpuNVVMAttachTargetOptions target;
  target.chip = "sm_90a";
  // The oldest PTX that has everything the kernels use, for older drivers.
  target.features = "+ptx80";
  target.optLevel = 3;
  pm.addPass(createGpuNVVMAttachTarget(target));
  pm.addPass(createConvertKernelsToPTXPass());
}
