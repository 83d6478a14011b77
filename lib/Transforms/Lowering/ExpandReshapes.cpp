//===- ExpandReshapes.cpp - Lower reshapes with several dynamic sizes -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's expand-strided-metadata derives a dynamic size from the other
// sizes of its group. It cannot do this if a group has two dynamic sizes. The
// operands of the op already have all sizes, so this pass reads them instead.
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/ReplacementCounter.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace fuse {
#define GEN_PASS_DEF_EXPANDRESHAPESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-expand-reshapes"

using namespace mlir;
using namespace fuse;

namespace {

struct ExpandShapeToCast : OpRewritePattern<memref::ExpandShapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(memref::ExpandShapeOp op,
                                PatternRewriter &rewriter) const override {
    MemRefType type = op.getResultType();
    bool several = llvm::any_of(
        op.getReassociationIndices(), [&](const ReassociationIndices &group) {
          return llvm::count_if(group, [&](int64_t dim) {
                   return type.isDynamicDim(dim);
                 }) > 1;
        });
    if (!several)
      return rewriter.notifyMatchFailure(op, "no group with two dynamic sizes");
    if (!type.getLayout().isIdentity() ||
        !op.getSrcType().getLayout().isIdentity())
      return rewriter.notifyMatchFailure(op, "layout is not row-major");
    SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
    SmallVector<OpFoldResult> strides(sizes.size());
    OpFoldResult stride = rewriter.getIndexAttr(1);
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride = multiply(rewriter, op.getLoc(), stride, sizes[dim]);
    }
    rewriter.replaceOpWithNewOp<memref::ReinterpretCastOp>(
        op, type, op.getSrc(), rewriter.getIndexAttr(0), sizes, strides);
    return success();
  }

  static OpFoldResult multiply(OpBuilder &builder, Location loc,
                               OpFoldResult lhs, OpFoldResult rhs) {
    auto lhsSize = getConstantIntValue(lhs), rhsSize = getConstantIntValue(rhs);
    if (lhsSize && rhsSize)
      return builder.getIndexAttr(*lhsSize * *rhsSize);
    return arith::MulIOp::create(
               builder, loc, getValueOrCreateConstantIndexOp(builder, loc, lhs),
               getValueOrCreateConstantIndexOp(builder, loc, rhs))
        .getResult();
  }
};

struct ExpandReshapesPass
    : fuse::impl::ExpandReshapesPassBase<ExpandReshapesPass> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandShapeToCast>(&getContext());
    ReplacementCounter expanded(numExpanded);
    walkAndApplyPatterns(getOperation(), std::move(patterns), &expanded);
  }
};

} // namespace
