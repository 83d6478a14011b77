//===- InlineFunctions.cpp - Inline private functions ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Front ends put activations and norms in private functions of their own, and
// raising views one function at a time.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Inliner.h"

namespace fuse {
#define GEN_PASS_DEF_INLINEFUNCTIONSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {
struct InlineFunctions : fuse::impl::InlineFunctionsPassBase<InlineFunctions> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// Whether a call is inlined. Counts the ops that this adds.
  bool isWanted(const Inliner::ResolvedCall &call);

  uint64_t numOps = 0;
};
} // namespace

static bool isCallee(func::FuncOp function) {
  return function.isPrivate() && !function.isExternal();
}

bool InlineFunctions::isWanted(const Inliner::ResolvedCall &call) {
  auto callee = dyn_cast<func::FuncOp>(
      call.targetNode->getCallableRegion()->getParentOp());
  if (!isa<func::CallOp>(call.call) || !callee || !isCallee(callee))
    return false;
  uint64_t size = 0;
  callee.walk([&](Operation *) { ++size; });
  // Functions that call each other twice, n deep, would become 2^n copies.
  if (numOps + size > maxOps)
    return false;
  numOps += size;
  ++numInlined;
  return true;
}

void InlineFunctions::runOnOperation() {
  // Without a callee, the inliner would list the uses of all symbols in vain.
  if (llvm::none_of(getOperation().getOps<func::FuncOp>(), isCallee))
    return;
  numOps = 0;
  // Callees are simplified with their callers, by the passes that follow.
  InlinerConfig config(/*defaultPipeline=*/nullptr,
                       /*maxInliningIterations=*/4);
  Inliner inliner(
      getOperation(), getAnalysis<CallGraph>(), *this, getAnalysisManager(),
      [](Pass &, OpPassManager &, Operation *) { return success(); }, config,
      [this](const Inliner::ResolvedCall &call) { return isWanted(call); });
  if (failed(inliner.doInlining()))
    signalPassFailure();
}
