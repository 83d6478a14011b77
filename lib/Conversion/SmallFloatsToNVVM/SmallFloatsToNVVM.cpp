//===- SmallFloatsToNVVM.cpp - Conversions of 8-bit floats to NVVM --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The instructions convert pairs, but only one half is used. The loads and
// stores of the portable path are scalar, too.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/SmallFloatsToNVVM/SmallFloatsToNVVM.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_CONVERTSMALLFLOATSTONVVMPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "convert-small-floats-to-nvvm"

static bool hasInstruction(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

namespace {

/// Extends f8 to f16 exactly, and then converts to the result type.
struct ExtendF8 : OpRewritePattern<arith::ExtFOp> {
  ExtendF8(MLIRContext *context, Pass::Statistic &count)
      : OpRewritePattern(context), count(count) {}

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType(), to = op.getType();
    if (!hasInstruction(from))
      return rewriter.notifyMatchFailure(op, "source is not a scalar f8");
    Location loc = op.getLoc();
    auto pairOfBytes = VectorType::get(2, rewriter.getI8Type());
    auto pairOfHalves = VectorType::get(2, rewriter.getF16Type());
    Value bits = arith::BitcastOp::create(rewriter, loc, rewriter.getI8Type(),
                                          op.getIn());
    Value pair = vector::BroadcastOp::create(rewriter, loc, pairOfBytes, bits);
    Value halves = NVVM::ConvertF8x2ToF16x2Op::create(
        rewriter, loc, pairOfHalves, pair, /*relu=*/false, from);
    Value half = vector::ExtractOp::create(rewriter, loc, halves, 0);
    if (to.isF16())
      rewriter.replaceOp(op, half);
    else if (to.isBF16()) {
      // bf16 represents every f8 exactly, so the second conversion does not
      // round.
      Value wide =
          arith::ExtFOp::create(rewriter, loc, rewriter.getF32Type(), half);
      rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, to, wide);
    } else
      rewriter.replaceOpWithNewOp<arith::ExtFOp>(op, to, half);
    ++count;
    return success();
  }

  Pass::Statistic &count;
};

/// Truncates f32, or a narrower type after its extension, to f8 with
/// saturation.
struct TruncateToF8 : OpRewritePattern<arith::TruncFOp> {
  TruncateToF8(MLIRContext *context, Pass::Statistic &count)
      : OpRewritePattern(context), count(count) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType(), to = op.getType();
    if (!hasInstruction(to))
      return rewriter.notifyMatchFailure(op, "result is not a scalar f8");
    if (from.isF64())
      return rewriter.notifyMatchFailure(op, "f64 would be rounded twice");
    if (op.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
        arith::RoundingMode::to_nearest_even)
      return rewriter.notifyMatchFailure(op, "rounding mode has no "
                                             "instruction");
    Location loc = op.getLoc();
    Value wide = op.getIn();
    if (!from.isF32())
      wide = arith::ExtFOp::create(rewriter, loc, rewriter.getF32Type(), wide);
    Value zero =
        arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(0.0));
    // The second operand becomes the low byte.
    auto context = rewriter.getContext();
    Value pair = NVVM::ConvertF32x2ToF8x2Op::create(
        rewriter, loc, rewriter.getI16Type(), zero, wide,
        NVVM::FPRoundingModeAttr::get(context, NVVM::FPRoundingMode::RN),
        NVVM::SaturationModeAttr::get(context, NVVM::SaturationMode::SATFINITE),
        rewriter.getBoolAttr(false), TypeAttr::get(to));
    Value byte =
        arith::TruncIOp::create(rewriter, loc, rewriter.getI8Type(), pair);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, to, byte);
    ++count;
    return success();
  }

  Pass::Statistic &count;
};

class ConvertSmallFloatsToNVVMPass
    : public fuse::impl::ConvertSmallFloatsToNVVMPassBase<
          ConvertSmallFloatsToNVVMPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExtendF8>(&getContext(), numExtended);
    patterns.add<TruncateToF8>(&getContext(), numTruncated);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
