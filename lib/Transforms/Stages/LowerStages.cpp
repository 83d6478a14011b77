//===- LowerStages.cpp - Replace graphs of stages by layer ops ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "stage/IR/StageOps.h"

namespace fuse {
#define GEN_PASS_DEF_LOWERSTAGESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {
struct LowerStagesPass : fuse::impl::LowerStagesPassBase<LowerStagesPass> {
  using LowerStagesPassBase::LowerStagesPassBase;

  void runOnOperation() override {
    numLowered += stage::lowerGraphs(getOperation());
  }
};
} // namespace
