//===- CPUPipeline.cpp - From layers to LLVM for a CPU --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/Passes.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fuse;

void fuse::buildLinalgPipeline(OpPassManager &pm, bool scaleArguments) {
  pm.addPass(createFlattenModelsPass());
  ConvertFuseToLinalgPassOptions convert;
  convert.scaleArguments = scaleArguments;
  pm.addPass(createConvertFuseToLinalgPass(convert));
  // Front ends write arithmetic on whole tensors between layers.
  pm.addPass(createConvertElementwiseToLinalgPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Bufferizes tensors and deallocates buffers after their last use.
static void addBufferization(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  // An iteration that allocates frees the buffer of the previous one.
  options.allowReturnAllocsFromLoops = true;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  bufferization::buildBufferDeallocationPipeline(pm, {});
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createConvertBufferizationToMemRefPass());
  pm.addPass(createCSEPass());
}

/// Lowers structured ops to loops. No pass here reorders or contracts
/// floating-point arithmetic.
static void addLoops(OpPassManager &pm,
                     const VectorizeReductionsPassOptions *vectorize) {
  if (vectorize)
    pm.addPass(createVectorizeReductionsPass(*vectorize));
  pm.addPass(createExpandCopiesPass());
  pm.addPass(createTileTransposesPass());
  pm.addPass(createConvertLinalgToLoopsPass());
  pm.addPass(createExpandReshapesPass());
  pm.addPass(createExpandSmallFloatsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Lowers loops on buffers to the LLVM dialect.
static void addLoweringToLLVM(OpPassManager &pm) {
  // Kernels for a GPU keep their loops, since they have one block.
  pm.addNestedPass<func::FuncOp>(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  // Functions without an instruction become calls of libm. It is more accurate
  // than the polynomials of vector libraries, and its results do not depend on
  // the position of a value in a vector.
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

SmallVector<Phase> fuse::getCPUPhases(const CPUPipelineOptions &options) {
  VectorizeReductionsPassOptions vectorize;
  vectorize.lanes = options.lanes;
  vectorize.rows = options.rows;
  vectorize.columns = options.columns;
  bool reference = options.reference;
  bool scaleArguments = options.scaleArguments;
  return {{"linalg",
           [=](OpPassManager &pm) {
             pm.addPass(createCheckCallsPass());
             pm.addPass(createLowerSlotsPass());
             buildLinalgPipeline(pm, scaleArguments);
             pm.addNestedPass<func::FuncOp>(createPrepareEntryPointsPass());
             pm.addNestedPass<func::FuncOp>(createRecordChecksPass());
           }},
          {"buffers", addBufferization},
          {"loops",
           [=](OpPassManager &pm) {
             addLoops(pm, reference ? nullptr : &vectorize);
           }},
          {"llvm", addLoweringToLLVM}};
}

void fuse::buildCPUPipeline(OpPassManager &pm,
                            const CPUPipelineOptions &options) {
  for (const Phase &phase : getCPUPhases(options))
    phase.build(pm);
}

void fuse::buildCPUKernelsPipeline(OpPassManager &pm,
                                   const CPUKernelsPipelineOptions &options) {
  ConvertFuseToCPUPassOptions convert;
  convert.lanes = options.lanes;
  convert.registers = options.registers;
  convert.fma = options.fma;
  convert.dot = options.dot;
  convert.tiles = options.tiles;
  pm.addPass(createConvertFuseToCPUPass(convert));
  OpPassManager &kernels = pm.nest<ModuleOp>();
  kernels.addPass(createCSEPass());
  // There is no library with vector functions, so expand math ops.
  kernels.addPass(createExpandMathPass());
  kernels.addPass(createExpandSmallFloatsPass());
  // Each pass adds to the time of the first kernel. Kernels use only ops with a
  // single pattern to the LLVM dialect, and LLVM folds the rest.
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCSEPass());
}
