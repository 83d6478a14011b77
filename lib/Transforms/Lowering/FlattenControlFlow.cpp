//===- FlattenControlFlow.cpp - Unroll loops around launches --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan is a list of launches, and a launch may have a condition on sizes. A
// later launch reads one buffer, whichever branch wrote it, so both branches
// write their results to one tensor.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
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

/// Whether an op computes sizes or conditions from sizes.
static bool isSizeArithmetic(Operation *op) {
  return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivUIOp,
             arith::DivSIOp, arith::FloorDivSIOp, arith::CeilDivUIOp,
             arith::CeilDivSIOp, arith::RemUIOp, arith::IndexCastOp,
             arith::IndexCastUIOp, arith::ExtUIOp, arith::CmpIOp, arith::AndIOp,
             arith::OrIOp, arith::XOrIOp, affine::AffineApplyOp>(op);
}

/// Whether a host can evaluate `condition` before the first launch.
static bool isConditionOnSizes(Value condition) {
  llvm::SetVector<Value> worklist;
  worklist.insert(condition);
  for (size_t i = 0; i < worklist.size(); ++i) {
    Operation *op = worklist[i].getDefiningOp();
    if (!op)
      return false;
    if (op->hasTrait<OpTrait::ConstantLike>() || isa<tensor::DimOp>(op))
      continue;
    if (!isSizeArithmetic(op))
      return false;
    worklist.insert(op->operand_begin(), op->operand_end());
  }
  return true;
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
          (failed(unroll(function, frozen)) ||
           (!unrollOnly &&
            (failed(check(function)) || failed(joinBranches(function))))))
        return signalPassFailure();
  }

private:
  LogicalResult unroll(func::FuncOp function,
                       const FrozenRewritePatternSet &patterns);
  LogicalResult check(func::FuncOp function);
  LogicalResult joinBranches(func::FuncOp function);
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
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (loop && loop.getStaticTripCount())
        loops.push_back(loop);
      return loop || isa<linalg::LinalgOp>(op) ? WalkResult::skip()
                                               : WalkResult::advance();
    });
    if (loops.empty())
      return success();
    for (scf::ForOp loop : loops) {
      APInt count = *loop.getStaticTripCount();
      total += count.getLimitedValue(kMaxIterations + 1);
      if (total > kMaxIterations && unrollOnly)
        return success();
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
    if (isa<scf::YieldOp>(op))
      return WalkResult::advance();
    Value condition;
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      condition = branch.getCondition();
      if (isConditionOnSizes(condition))
        return WalkResult::advance();
    }
    if (auto branch = dyn_cast<scf::IndexSwitchOp>(op))
      condition = branch.getArg();
    if (isa<scf::ForOp>(op))
      refuse(op) << "its number of iterations is not a constant";
    else if (condition && isComputedByKernels(condition))
      refuse(op) << "its condition is computed on the GPU";
    else if (isa<scf::IfOp>(op))
      refuse(op) << "its condition is neither a constant nor a comparison of "
                    "sizes";
    else if (condition)
      refuse(op) << "its condition is not a constant";
    else
      refuse(op) << "expected loops with constant bounds, or none";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Replaces selects of tensors by branches: canonicalization makes them of
/// branches without ops.
static void expandSelects(func::FuncOp function) {
  SmallVector<arith::SelectOp> selects;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto select = dyn_cast<arith::SelectOp>(op);
    if (select && isa<RankedTensorType>(select.getType()) &&
        select.getCondition().getType().isInteger(1) &&
        isConditionOnSizes(select.getCondition()))
      selects.push_back(select);
    return isa<linalg::LinalgOp>(op) ? WalkResult::skip()
                                     : WalkResult::advance();
  });
  for (arith::SelectOp select : selects) {
    OpBuilder builder(select);
    auto yield = [](Value value) {
      return [value](OpBuilder &inner, Location loc) {
        scf::YieldOp::create(inner, loc, value);
      };
    };
    auto branch = scf::IfOp::create(
        builder, select.getLoc(), select.getCondition(),
        yield(select.getTrueValue()), yield(select.getFalseValue()));
    select.replaceAllUsesWith(branch.getResult(0));
    select.erase();
  }
}

/// A tensor for `result` of `branch`, with the size that both branches
/// give it, or null.
static Value makeDestination(OpBuilder &builder, scf::IfOp branch,
                             OpResult result) {
  auto type = cast<RankedTensorType>(result.getType());
  auto isOutside = [&](Value value, std::optional<int64_t> dim,
                       ValueBoundsConstraintSet &) {
    return dim && !branch->isAncestor(value.getParentRegion()->getParentOp()) &&
           value.getDefiningOp() != branch;
  };
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (!type.isDynamicDim(dim))
      continue;
    FailureOr<OpFoldResult> size = affine::reifyShapedValueDimBound(
        builder, branch.getLoc(), presburger::BoundType::EQ, result, dim,
        isOutside);
    if (failed(size))
      return {};
    sizes.push_back(
        getValueOrCreateConstantIndexOp(builder, branch.getLoc(), *size));
  }
  // The elimination of empty tensors would give each branch another tensor.
  return bufferization::AllocTensorOp::create(builder, branch.getLoc(), type,
                                              sizes);
}

/// Makes both branches of each `scf.if` write to the same tensors, the
/// outermost first.
LogicalResult FlattenControlFlowPass::joinBranches(func::FuncOp function) {
  expandSelects(function);
  SmallVector<scf::IfOp> branches;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto branch = dyn_cast<scf::IfOp>(op))
      branches.push_back(branch);
    return isa<linalg::LinalgOp>(op) ? WalkResult::skip()
                                     : WalkResult::advance();
  });
  for (scf::IfOp branch : branches)
    for (OpResult result : branch.getResults()) {
      if (!isa<RankedTensorType>(result.getType()))
        return refuse(branch) << "expected tensors as its results, but got "
                              << result.getType();
      OpBuilder builder(branch);
      Value destination = makeDestination(builder, branch, result);
      if (!destination)
        return refuse(branch)
               << "its branches give result " << result.getResultNumber()
               << " sizes that are not known to be equal";
      for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()}) {
        builder.setInsertionPoint(yield);
        OpOperand &value = yield->getOpOperand(result.getResultNumber());
        auto write = bufferization::MaterializeInDestinationOp::create(
            builder, branch.getLoc(), result.getType(), value.get(),
            destination);
        value.set(write.getResult());
      }
      ++numJoined;
    }
  return success();
}
