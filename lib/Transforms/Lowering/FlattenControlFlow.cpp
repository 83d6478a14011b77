//===- FlattenControlFlow.cpp - Unroll loops around launches --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_FLATTENCONTROLFLOWPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-flatten-control-flow"

/// Largest number of iterations that are unrolled in a function. Each iteration
/// adds its launches to the plan and its buffers to the workspace. The deepest
/// published models have some 130 layers.
static constexpr int64_t kMaxIterations = 1024;

/// Whether kernels compute `value` or a value that it depends on.
static bool isComputedByKernels(Value value) {
  llvm::SetVector<Value> worklist;
  worklist.insert(value);
  for (size_t i = 0; i < worklist.size(); ++i) {
    Operation *op = worklist[i].getDefiningOp();
    if (!op || isa<tensor::DimOp>(op))
      continue;
    if (isa<tensor::ExtractOp>(op))
      return true;
    worklist.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

static InFlightDiagnostic refuse(Operation *op) {
  return op->emitOpError("cannot be in a launch plan, which is a list: ");
}

namespace {

class FlattenControlFlowPass
    : public fuse::impl::FlattenControlFlowPassBase<FlattenControlFlowPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    for (StringRef name : {"scf.for", "scf.if", "scf.index_switch"})
      if (auto info = RegisteredOperationName::lookup(name, &getContext()))
        info->getCanonicalizationPatterns(patterns, &getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          (failed(unroll(function, frozen)) || failed(check(function))))
        return signalPassFailure();
  }

private:
  LogicalResult unroll(func::FuncOp function,
                       const FrozenRewritePatternSet &patterns);
  LogicalResult check(func::FuncOp function);
};

} // namespace

/// Unrolls the outermost loops first: the bounds of inner loops may depend on
/// their counters.
LogicalResult
FlattenControlFlowPass::unroll(func::FuncOp function,
                               const FrozenRewritePatternSet &patterns) {
  int64_t total = 0;
  while (true) {
    SmallVector<scf::ForOp> loops;
    for (Block &block : function.getBody())
      for (auto loop : block.getOps<scf::ForOp>())
        if (loop.getStaticTripCount())
          loops.push_back(loop);
    if (loops.empty())
      return success();
    for (scf::ForOp loop : loops) {
      APInt count = *loop.getStaticTripCount();
      total += count.getLimitedValue(kMaxIterations + 1);
      if (total > kMaxIterations)
        return refuse(loop) << "its loops have " << total
                            << " iterations or more, and at most "
                            << kMaxIterations << " of a function are unrolled";
      if (failed(loopUnrollFull(loop)))
        return refuse(loop) << "it cannot be unrolled";
      ++numUnrolled;
    }
    // Folds the bounds of inner loops and the conditions on counters.
    if (failed(applyPatternsGreedily(function, patterns)))
      return failure();
  }
}

LogicalResult FlattenControlFlowPass::check(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return refuse(function.front().getTerminator())
           << "expected a function of one block";
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Kernels may have control flow.
    if (isa<linalg::LinalgOp>(op))
      return WalkResult::skip();
    if (!isa_and_present<scf::SCFDialect>(op->getDialect()))
      return WalkResult::advance();
    Value condition;
    if (auto branch = dyn_cast<scf::IfOp>(op))
      condition = branch.getCondition();
    else if (auto branch = dyn_cast<scf::IndexSwitchOp>(op))
      condition = branch.getArg();
    if (isa<scf::ForOp>(op))
      refuse(op) << "its number of iterations is not a constant";
    else if (condition && isComputedByKernels(condition))
      refuse(op) << "its condition is computed on the GPU";
    else if (condition)
      refuse(op) << "its condition is not a constant";
    else
      refuse(op) << "expected loops with constant bounds, or none";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
