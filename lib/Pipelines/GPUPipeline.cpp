//===- GPUPipeline.cpp - From layers to PTX, for any shape ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/Passes.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace fuse;

static void addCleanup(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Cleans up host code. Scheduled kernels do not change.
static void addHostCleanup(OpPassManager &pm) {
  addCleanup(pm.nest<func::FuncOp>());
}

/// Lowers layers on tensors to kernels on buffers and their launches.
static void addLoweringToGPU(OpPassManager &pm, const Chip &chip,
                             bool scaleArguments) {
  LowerSlotsPassOptions slots;
  slots.device = "gpu";
  slots.chip = chip.name.str();
  pm.addPass(createLowerSlotsPass(slots));
  pm.addPass(createFlattenModelsPass());
  pm.addPass(createCheckCallsPass());
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  ConvertFuseToLinalgPassOptions convert;
  convert.scaleArguments = scaleArguments;
  pm.addPass(createConvertFuseToLinalgPass(convert));
  // Front ends write arithmetic on whole tensors between layers.
  pm.addPass(createConvertElementwiseToLinalgPass());
  addHostCleanup(pm);
  pm.addPass(createFlattenControlFlowPass());
  addHostCleanup(pm);
  pm.addNestedPass<func::FuncOp>(createRecordChecksPass());
  // Gives each reduction a separate fill. A later CSE would merge them again.
  pm.addPass(createMergeElementwisePass());
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addPass(createResultsToArgumentsPass());
  pm.addPass(bufferization::createEmptyTensorEliminationPass());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(bufferize));
  addHostCleanup(pm);
  pm.addPass(createConvertLinalgToGPUPass());
  addHostCleanup(pm);
  addCleanup(pm.nest<gpu::GPUModuleOp>().nest<gpu::GPUFuncOp>());
  pm.addPass(createAttachLaunchPlanPass());
}

/// Lowers kernels to the NVVM dialect. The host code does not change.
static void addLoweringToNVVM(OpPassManager &pm, const Chip &chip) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createExpandMathPass());
  if (chip.hasFloat8)
    kernels.addPass(createConvertSmallFloatsToNVVMPass());
  // Conversions without an instruction, all of them before sm_89.
  ExpandSmallFloatsPassOptions floats;
  floats.bf16 = false;
  kernels.addPass(createExpandSmallFloatsPass(floats));
  kernels.addPass(memref::createExpandStridedMetadataPass());
  kernels.addPass(createLowerAffinePass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertKernelsToNVVMPass());
  addCleanup(kernels);
  kernels.addPass(createReconcileUnrealizedCastsPass());

  GpuNVVMAttachTargetOptions target;
  target.chip = chip.name.str();
  target.features = chip.getFeatures();
  target.optLevel = 3;
  pm.addPass(createGpuNVVMAttachTarget(target));
}

LogicalResult
fuse::buildGPUPipeline(OpPassManager &pm, const GPUPipelineOptions &options,
                       function_ref<LogicalResult(const Twine &)> reportError) {
  constexpr StringLiteral stages[] = {"gpu", "nvvm", "ptx"};
  if (!llvm::is_contained(stages, options.stage.getValue()))
    return reportError("unknown stage '" + options.stage.getValue() +
                       "', expected one of gpu, nvvm, ptx");
  FailureOr<Chip> chip = lookupChip(options.chip, reportError);
  if (failed(chip))
    return failure();
  // Kernels at this point are scheduled ones.
  if (options.stage != "gpu")
    buildHopperKernelPipeline(
        pm, options.stage == "nvvm" ? HopperStage::NVVM : HopperStage::PTX,
        chip->name);
  addLoweringToGPU(pm, *chip, options.scaleArguments);
  if (options.stage == "gpu")
    return success();
  addLoweringToNVVM(pm, *chip);
  if (options.stage == "nvvm")
    return success();
  pm.addPass(createConvertKernelsToPTXPass());
  return success();
}

llvm::Error fuse::buildGPUPipeline(OpPassManager &pm,
                                   const GPUPipelineOptions &options) {
  std::string problem;
  LogicalResult built =
      buildGPUPipeline(pm, options, [&](const Twine &message) {
        problem = message.str();
        return failure();
      });
  return failed(built) ? llvm::createStringError(problem)
                       : llvm::Error::success();
}

llvm::Error fuse::buildGPUKernelPipeline(OpPassManager &pm,
                                         const GPUPipelineOptions &options) {
  std::string problem;
  FailureOr<Chip> chip = lookupChip(options.chip, [&](const Twine &message) {
    problem = message.str();
    return failure();
  });
  if (failed(chip))
    return llvm::createStringError(problem);
  addLoweringToNVVM(pm, *chip);
  pm.addPass(createConvertKernelsToPTXPass());
  return llvm::Error::success();
}
