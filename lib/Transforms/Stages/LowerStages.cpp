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
    SmallVector<stage::GraphOp> graphs;
    getOperation()->walk([&](stage::GraphOp graph) {
      if (graph != getOperation())
        graphs.push_back(graph);
    });
    for (stage::GraphOp graph : graphs) {
      OpBuilder builder(graph);
      graph->replaceAllUsesWith(
          stage::lowerGraph(graph, builder, stage::Slices::Keep));
      graph->erase();
      ++numLowered;
    }
  }
};
} // namespace
