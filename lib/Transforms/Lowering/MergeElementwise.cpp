//===- MergeElementwise.cpp - Merge elementwise linalg ops ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The patterns are upstream's; this pass decides which producers they merge. A
// reduction absorbs its producer if that does not repeat the producer's work,
// or if the repeated work costs less than the memory access that it saves.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_MERGEELEMENTWISEPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-merge-elementwise"

/// Whether the body costs little compared with a memory access.
static bool isCheap(linalg::GenericOp op) {
  return !op.getBody()
              ->walk([](Operation *bodyOp) {
                bool isCheapMath =
                    isa<math::AbsFOp, math::FmaOp, math::RoundEvenOp>(bodyOp);
                bool isExpensive =
                    isa<arith::DivFOp>(bodyOp) ||
                    (isa_and_present<math::MathDialect>(bodyOp->getDialect()) &&
                     !isCheapMath);
                return isExpensive ? WalkResult::interrupt()
                                   : WalkResult::advance();
              })
              .wasInterrupted();
}

/// Bits that the op reads per element of its result. Only inputs that vary
/// along every loop count.
static unsigned getInputBits(linalg::GenericOp op) {
  unsigned bits = 0;
  for (OpOperand *input : op.getDpsInputOperands())
    if (op.getMatchingIndexingMap(input).getNumResults() == op.getNumLoops())
      bits +=
          getElementTypeOrSelf(input->get().getType()).getIntOrFloatBitWidth();
  return bits;
}

/// Whether the producer of `operand` is merged into its only consumer.
static bool shouldMerge(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!producer || !consumer || !producer->hasOneUse())
    return false;
  if (consumer.getNumReductionLoops() == 0)
    return true;
  // A loop along which the operand does not vary repeats the producer.
  AffineMap map = consumer.getMatchingIndexingMap(operand);
  if (map.getNumResults() == consumer.getNumLoops())
    return true;
  unsigned resultBits =
      getElementTypeOrSelf(operand->get().getType()).getIntOrFloatBitWidth();
  return isCheap(producer) && getInputBits(producer) <= resultBits;
}

namespace {

class MergeElementwisePass
    : public fuse::impl::MergeElementwisePassBase<MergeElementwisePass> {
public:
  using Base::Base;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    repeatFills();
    generalizeTransposes();
    RewritePatternSet patterns(context);
    linalg::populateElementwiseOpsFusionPatterns(patterns, [&](OpOperand *use) {
      bool merge = shouldMerge(use);
      numMerged += merge;
      return merge;
    });
    linalg::GenericOp::getCanonicalizationPatterns(patterns, context);
    linalg::FillOp::getCanonicalizationPatterns(patterns, context);
    tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, context);
    tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, context);
    if (failed(applyPatternsGreedily(
            getOperation(), std::move(patterns),
            GreedyRewriteConfig().setUseTopDownTraversal())))
      signalPassFailure();
  }

private:
  /// Gives each op that can absorb a transpose into its indexing maps a
  /// transpose of its own.
  void generalizeTransposes() {
    SmallVector<linalg::TransposeOp> transposes;
    getOperation()->walk([&](linalg::TransposeOp transpose) {
      if (transpose.hasPureTensorSemantics() && !transpose->use_empty() &&
          llvm::all_of(transpose->getUsers(), llvm::IsaPred<linalg::GenericOp>))
        transposes.push_back(transpose);
    });
    IRRewriter rewriter(&getContext());
    for (linalg::TransposeOp transpose : transposes) {
      rewriter.setInsertionPoint(transpose);
      for (OpOperand &use :
           llvm::make_early_inc_range(llvm::drop_begin(transpose->getUses()))) {
        auto copy = cast<linalg::TransposeOp>(rewriter.clone(*transpose));
        use.set(copy->getResult(0));
        (void)linalg::generalizeNamedOp(rewriter, copy);
      }
      (void)linalg::generalizeNamedOp(rewriter, transpose);
    }
  }

  /// Replaces a constant of one value that initializes a result by a fill,
  /// which a reduction absorbs. Bufferization would copy the constant.
  static void fillInit(linalg::LinalgOp op, OpOperand &init) {
    DenseElementsAttr constant;
    if (!matchPattern(init.get(), m_Constant(&constant)) ||
        !constant.isSplat() || !op.payloadUsesValueFromOperand(&init))
      return;
    OpBuilder builder(op);
    Location loc = init.get().getLoc();
    auto type = cast<RankedTensorType>(init.get().getType());
    Value value = arith::ConstantOp::create(
        builder, loc, constant.getSplatValue<TypedAttr>());
    Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                          type.getElementType());
    init.set(linalg::FillOp::create(builder, loc, value, empty).getResult(0));
  }

  /// Gives each user of a filled tensor a separate fill. Otherwise,
  /// bufferization copies a buffer that initializes two reductions.
  void repeatFills() {
    getOperation()->walk([](linalg::LinalgOp op) {
      for (OpOperand &init : op.getDpsInitsMutable())
        fillInit(op, init);
    });
    getOperation()->walk([](linalg::FillOp fill) {
      // A fill of a buffer has no result.
      if (fill->use_empty())
        return;
      OpBuilder builder(fill);
      for (OpOperand &use :
           llvm::make_early_inc_range(llvm::drop_begin(fill->getUses())))
        use.set(builder.clone(*fill)->getResult(0));
    });
  }
};

} // namespace
