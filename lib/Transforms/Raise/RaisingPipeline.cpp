//===- RaisingPipeline.cpp - From a user's program to layer ops -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace fuse;

void fuse::buildRaisingPipeline(OpPassManager &pm) {
  // Raising views one function at a time, and more of it is found in simple IR.
  pm.addPass(createInlineFunctionsPass());
  OpPassManager &functions = pm.nest<func::FuncOp>();
  // Ops with two equal operands have folders.
  functions.addPass(createCSEPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createRaiseLayersPass());
  // The sizes of intermediates, and casts between layers, must not count as
  // users that prevent a kernel.
  memref::ResolveRankedShapeTypeResultDimsPassOptions dims;
  dims.errorOnPatternIterationLimit = false;
  functions.addPass(memref::createResolveRankedShapeTypeResultDimsPass(dims));
  functions.addPass(createCanonicalizerPass());
  // Casts of one value, which are operands of several members, become one.
  functions.addPass(createCSEPass());
}

LogicalResult fuse::raiseProgram(ModuleOp module) {
  PassManager pm(module.getContext());
  buildRaisingPipeline(pm);
  return pm.run(module);
}
