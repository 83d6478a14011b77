//===- KernelFormationPipeline.cpp - From layers to fused ops -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fuse;

void fuse::buildKernelFormationPipeline(
    OpPassManager &pm, const KernelFormationPipelineOptions &options) {
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createRaiseLayersPass());
  // The sizes of intermediates, and casts between layers, must not count as
  // users that prevent a kernel.
  memref::ResolveRankedShapeTypeResultDimsPassOptions dims;
  dims.errorOnPatternIterationLimit = false;
  functions.addPass(memref::createResolveRankedShapeTypeResultDimsPass(dims));
  functions.addPass(createCanonicalizerPass());
  // Casts of one value, which are operands of several members, become one.
  functions.addPass(createCSEPass());
  RepairScalesPassOptions repair;
  repair.unequal = options.unequalScales;
  functions.addPass(createRepairScalesPass(repair));
  FormKernelsPassOptions form;
  form.rounding = options.rounding;
  llvm::append_range(form.families, options.families);
  llvm::append_range(form.disable, options.disable);
  functions.addPass(createFormKernelsPass(form));
}
