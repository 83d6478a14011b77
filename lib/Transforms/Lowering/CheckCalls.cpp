//===- CheckCalls.cpp - Refuse recursive functions ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Analysis/CallGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_CHECKCALLSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-check-calls"

namespace {

class CheckCallsPass : public fuse::impl::CheckCallsPassBase<CheckCallsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    WalkResult reduces = getOperation().walk([&](AllReduceOp op) {
      op.emitOpError() << "sums over " << op.getSize()
                       << " ranks, which has no code; expected one rank, or "
                          "fuse-join-ranks before";
      return WalkResult::interrupt();
    });
    if (reduces.wasInterrupted())
      return signalPassFailure();
    getOperation().walk([&](func::CallOp) { ++numChecked; });
    const CallGraph &graph = getAnalysis<CallGraph>();
    for (auto it = llvm::scc_begin(&graph); !it.isAtEnd(); ++it)
      if (it.hasCycle() && failed(refuse(*it)))
        return signalPassFailure();
  }

private:
  LogicalResult refuse(ArrayRef<CallGraphNode *> cycle);
};

} // namespace

/// Names a call from a function of the cycle to one of the cycle, if they are
/// functions.
LogicalResult CheckCallsPass::refuse(ArrayRef<CallGraphNode *> cycle) {
  llvm::SmallPtrSet<Operation *, 4> functions;
  for (CallGraphNode *node : cycle)
    if (!node->isExternal())
      functions.insert(node->getCallableRegion()->getParentOp());
  WalkResult result = getOperation().walk([&](func::CallOp call) {
    auto caller = call->getParentOfType<func::FuncOp>();
    Operation *callee =
        SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr());
    if (!functions.contains(caller) || !functions.contains(callee))
      return WalkResult::advance();
    call.emitOpError("of '")
        << call.getCallee() << "' is recursive, expected calls that end";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
