//===- RaisingPipeline.cpp - From a user's program to layer ops -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fuse;

void fuse::buildRaisingPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createRaiseLayersPass());
}

LogicalResult fuse::raiseProgram(ModuleOp module) {
  PassManager pm(module.getContext());
  buildRaisingPipeline(pm);
  return pm.run(module);
}
