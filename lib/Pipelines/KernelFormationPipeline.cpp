//===- KernelFormationPipeline.cpp - From layers to fused ops -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fuse;

void fuse::buildKernelFormationPipeline(
    OpPassManager &pm, const KernelFormationPipelineOptions &options) {
  buildRaisingPipeline(pm);
  OpPassManager &functions = pm.nest<func::FuncOp>();
  RepairScalesPassOptions repair;
  repair.unequal = options.unequalScales;
  functions.addPass(createRepairScalesPass(repair));
  FormKernelsPassOptions form;
  form.rounding = options.rounding;
  llvm::append_range(form.families, options.families);
  llvm::append_range(form.disable, options.disable);
  functions.addPass(createFormKernelsPass(form));
}
