//===- HopperPipeline.cpp - Fused ops to PTX of scheduled kernels ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToTile/FuseToTile.h"
#include "fuse/Conversion/KernelsToPTX/KernelsToPTX.h"
#include "fuse/Conversion/TileToNVVM/TileToNVVM.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fuse;

static void addPlanning(OpPassManager &pm,
                        const HopperPipelineOptions &options) {
  LowerSlotsPassOptions slots;
  slots.device = "gpu";
  slots.chip = options.chip;
  pm.addPass(createLowerSlotsPass(slots));
  // A plan is that of one function.
  pm.addPass(createFlattenModelsPass());
  pm.addPass(createInlinerPass());
  // A plan is a list, so each iteration gets its launches.
  FlattenControlFlowPassOptions flow;
  flow.unrollOnly = true;
  pm.addPass(createFlattenControlFlowPass(flow));
  SelectSchedulesPassOptions selection;
  selection.tokens = options.tokens;
  selection.dispatch = options.dispatch;
  selection.multiprocessors = options.multiprocessors;
  selection.table = options.table;
  selection.chip = options.chip;
  pm.addPass(createSelectSchedulesPass(selection));
  pm.addPass(createConvertFuseToTilePass());
}

/// The chip called `name`. An unknown one is an error of the passes that
/// follow.
static std::optional<Chip> findChip(StringRef name) {
  auto chip = lookupChip(name, [](const Twine &) { return failure(); });
  return succeeded(chip) ? std::optional<Chip>(*chip) : std::nullopt;
}

static void addKernelLowering(OpPassManager &modules, StringRef chip) {
  std::optional<Chip> known = findChip(chip);
  ConvertTileToNVVMPassOptions lowering;
  lowering.float8 = !known || known->hasFloat8;
  lowering.float8Products = !known || known->multipliesFloat8;
  modules.addPass(createConvertTileToNVVMPass(lowering));
  // Kernels of the portable path, in `gpu.func`, have a lowering of their own.
  OpPassManager &kernels = modules.nest<LLVM::LLVMFuncOp>();
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertToLLVMPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
}

static void attachTarget(OpPassManager &pm, StringRef chip) {
  GpuNVVMAttachTargetOptions target;
  target.chip = chip.str();
  if (std::optional<Chip> known = findChip(chip)) {
    // PTX 8.4 introduced mma.sync of 8-bit floats.
    if (known->multipliesFloat8)
      known->ptxVersion = std::max(known->ptxVersion, 84U);
    target.features = known->getFeatures();
  }
  target.optLevel = 3;
  pm.addPass(createGpuNVVMAttachTarget(target));
}

static void addPTX(OpPassManager &pm, StringRef chip) {
  attachTarget(pm, chip);
  pm.addPass(createConvertKernelsToPTXPass());
}

void fuse::buildHopperPipeline(OpPassManager &pm,
                               const HopperPipelineOptions &options) {
  addPlanning(pm, options);
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (options.stage == HopperStage::Tile)
    return;
  addKernelLowering(pm.nest<gpu::GPUModuleOp>(), options.chip);
  if (options.stage != HopperStage::NVVM)
    addPTX(pm, options.chip);
}

void fuse::buildHopperPlanPipeline(OpPassManager &pm,
                                   const HopperPipelineOptions &options) {
  addPlanning(pm, options);
  attachTarget(pm, options.chip);
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
}

void fuse::buildHopperKernelPipeline(OpPassManager &pm, HopperStage stage,
                                     StringRef chip) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  if (stage == HopperStage::Tile)
    return;
  addKernelLowering(kernels, chip);
  if (stage == HopperStage::PTX)
    addPTX(pm, chip);
}
