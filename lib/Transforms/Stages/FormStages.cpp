//===- FormStages.cpp - Write fused ops as graphs of stages ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/StageGraph.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_FORMSTAGESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {
struct FormStagesPass : fuse::impl::FormStagesPassBase<FormStagesPass> {
  using FormStagesPassBase::FormStagesPassBase;

  void runOnOperation() override {
    SmallVector<FusedOpInterface> ops;
    getOperation()->walk([&](FusedOpInterface op) {
      if (op != getOperation())
        ops.push_back(op);
    });
    for (FusedOpInterface op : ops) {
      OpBuilder builder(op);
      std::optional<Refusal> refusal;
      stage::GraphOp graph = formGraph(op, builder, refusal);
      if (!graph) {
        refuse(op, *refusal);
        continue;
      }
      ++numFormed;
      op->replaceAllUsesWith(graph.getResults());
      op->erase();
    }
  }

  void refuse(Operation *op, const Refusal &refusal) {
    ++numRefused;
    const RefusalText &text = getText(refusal.kind);
    remark::missed(op->getLoc(),
                   remark::RemarkOpts::name("stages").category("codegen"))
        << remark::reason("{0} {1}: {2}", text.id.str(), text.name.str(),
                          text.reason.str())
        << remark::metric("At", refusal.at.getStringRef())
        << remark::suggest("{0}", text.suggestion.str());
  }
};
} // namespace
