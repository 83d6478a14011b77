//===- ExpandMath.cpp - Expand math ops without a library -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-expand-math"

/// Expanded to other math ops.
static constexpr StringLiteral kExpanded[] = {
    "acosh", "asinh", "atanh", "cosh", "exp2",
    "fpowi", "powf",  "rsqrt", "sinh", "tan"};

/// Approximated by polynomials or rational functions in f32.
static constexpr StringLiteral kApproximated[] = {
    "acos", "asin",  "atan", "atan2", "cbrt", "cos", "erf", "erfc",
    "exp",  "expm1", "log",  "log1p", "log2", "sin", "tanh"};

/// Kept: every target has one instruction or a short exact sequence for them.
static constexpr StringLiteral kKept[] = {
    "absf",  "absi",  "ceil",      "copysign", "ctlz",
    "ctpop", "cttz",  "floor",     "fma",      "isfinite",
    "isnan", "round", "roundeven", "sqrt",     "trunc"};

static bool contains(ArrayRef<StringLiteral> names, StringRef name) {
  name.consume_front("math.");
  return llvm::is_contained(names, name);
}

/// Whether `op` must be expanded.
static bool isMeant(Operation *op) {
  return isa<arith::RemFOp>(op) ||
         (isa_and_present<math::MathDialect>(op->getDialect()) &&
          !contains(kKept, op->getName().getStringRef()));
}

//===----------------------------------------------------------------------===//
// Remainders
//===----------------------------------------------------------------------===//

namespace {

/// Builds integer arithmetic in 64 bits.
class IntBuilder : public ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(*this, value, 64);
  }
  template <typename OpTy>
  Value make(Value lhs, Value rhs) {
    return OpTy::create(*this, lhs, rhs);
  }
  template <typename OpTy>
  Value make(Value lhs, int64_t rhs) {
    return OpTy::create(*this, lhs, constant(rhs));
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, int64_t rhs) {
    return arith::CmpIOp::create(*this, predicate, lhs, constant(rhs));
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(*this, condition, yes, no);
  }
};

/// Expands a remainder to the long division of integers, which is exact for all
/// operands. `x - y * trunc(x / y)` is not. Remainders of narrower floats are
/// exact in f32.
struct ExpandRemainder : OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::RemFOp op,
                                PatternRewriter &rewriter) const override {
    auto narrow = dyn_cast<FloatType>(op.getType());
    bool extends = narrow && narrow.getWidth() < 32;
    FloatType type = extends ? rewriter.getF32Type() : narrow;
    if (!type || !(type.isF32() || type.isF64()))
      return rewriter.notifyMatchFailure(op, "expected at most f32, or f64");
    IntBuilder b(op.getLoc(), rewriter);
    // The number of fraction bits of the type.
    int64_t fraction = type.getFPMantissaWidth() - 1;
    int64_t width = type.getWidth();
    int64_t sign = int64_t(1) << (width - 1);
    int64_t infinity = (int64_t(1) << (width - 1)) - (int64_t(1) << fraction);
    Type bitsType = b.getIntegerType(width);
    auto getBits = [&](Value value) -> Value {
      if (extends)
        value = arith::ExtFOp::create(b, type, value);
      Value bits = arith::BitcastOp::create(b, bitsType, value);
      return width == 64
                 ? bits
                 : Value(arith::ExtUIOp::create(b, b.getI64Type(), bits));
    };
    // A magnitude is `mantissa * 2^exponent`. The mantissa of a subnormal
    // number is not normalized.
    auto getExponent = [&](Value bits) {
      return b.make<arith::MaxUIOp>(b.make<arith::ShRUIOp>(bits, fraction), 1);
    };
    auto getMantissa = [&](Value bits, Value exponent) {
      Value above = b.make<arith::SubIOp>(exponent, 1);
      return b.make<arith::SubIOp>(bits,
                                   b.make<arith::ShLIOp>(above, fraction));
    };
    Value bits = getBits(op.getLhs());
    Value x = b.make<arith::AndIOp>(bits, sign - 1);
    Value y = b.make<arith::AndIOp>(getBits(op.getRhs()), sign - 1);
    Value exponentX = getExponent(x), exponentY = getExponent(y);
    // The remainder of a zero divisor is NaN, but the division is still made.
    Value divisor = b.make<arith::MaxUIOp>(getMantissa(y, exponentY), 1);
    Value rest = b.make<arith::RemUIOp>(getMantissa(x, exponentX), divisor);

    // Append the zeros that the exponents differ by, as many at a time as 64
    // bits hold.
    int64_t most = 63 - fraction;
    Value zeros = b.make<arith::SubIOp>(exponentX, exponentY);
    auto loop = scf::ForOp::create(
        b, b.constant(0), zeros, b.constant(most), ValueRange(rest),
        [&](OpBuilder &builder, Location loc, Value done, ValueRange carried) {
          IntBuilder body(loc, builder);
          Value count = body.make<arith::MinSIOp>(
              body.make<arith::SubIOp>(zeros, done), most);
          Value longer = body.make<arith::ShLIOp>(carried[0], count);
          Value next = body.make<arith::RemUIOp>(longer, divisor);
          scf::YieldOp::create(body, next);
        });
    rest = loop.getResult(0);

    // Normalize the rest, unless the result is subnormal.
    Value leading = math::CountLeadingZerosOp::create(b, rest);
    Value shift =
        b.make<arith::MinSIOp>(b.make<arith::SubIOp>(leading, 63 - fraction),
                               b.make<arith::SubIOp>(exponentY, 1));
    Value above =
        b.make<arith::SubIOp>(b.make<arith::SubIOp>(exponentY, shift), 1);
    Value result =
        b.make<arith::AddIOp>(b.make<arith::ShLIOp>(rest, shift),
                              b.make<arith::ShLIOp>(above, fraction));
    using Predicate = arith::CmpIPredicate;
    result = b.select(b.compare(Predicate::eq, rest, 0), b.constant(0), result);
    result = b.select(b.compare(Predicate::slt, zeros, 0), x, result);
    result = b.make<arith::OrIOp>(result, b.make<arith::AndIOp>(bits, sign));
    Value isNaN = b.make<arith::OrIOp>(
        b.make<arith::OrIOp>(b.compare(Predicate::uge, x, infinity),
                             b.compare(Predicate::ugt, y, infinity)),
        b.compare(Predicate::eq, y, 0));
    int64_t quiet = infinity | int64_t(1) << (fraction - 1);
    result = b.select(isNaN, b.constant(quiet), result);
    if (width != 64)
      result = arith::TruncIOp::create(b, bitsType, result);
    result = arith::BitcastOp::create(b, type, result);
    if (extends)
      result = arith::TruncFOp::create(b, narrow, result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// Expands a decimal logarithm to a natural one.
struct ExpandLog10 : OpRewritePattern<math::Log10Op> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::Log10Op op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "expected f32");
    Location loc = op.getLoc();
    Value log = math::LogOp::create(rewriter, loc, op.getOperand());
    Value factor = arith::ConstantOp::create(
        rewriter, loc, rewriter.getF32FloatAttr(llvm::numbers::log10ef));
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, log, factor);
    return success();
  }
};

/// Expands tests for infinities and for normal numbers to comparisons.
template <typename OpTy>
struct ExpandClass : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    auto type = dyn_cast<FloatType>(op.getOperand().getType());
    if (!type)
      return rewriter.notifyMatchFailure(op, "expected a scalar");
    Location loc = op.getLoc();
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    Value magnitude = math::AbsFOp::create(rewriter, loc, op.getOperand());
    auto compare = [&](arith::CmpFPredicate predicate, const APFloat &bound) {
      Value constant = arith::ConstantOp::create(
          rewriter, loc, rewriter.getFloatAttr(type, bound));
      return arith::CmpFOp::create(rewriter, loc, predicate, magnitude,
                                   constant);
    };
    APFloat infinity = APFloat::getInf(semantics);
    if (std::is_same_v<OpTy, math::IsInfOp>) {
      rewriter.replaceOp(op, compare(arith::CmpFPredicate::OEQ, infinity));
      return success();
    }
    Value isFinite = compare(arith::CmpFPredicate::OLT, infinity);
    Value isLarge = compare(arith::CmpFPredicate::OGE,
                            APFloat::getSmallestNormalized(semantics));
    rewriter.replaceOpWithNewOp<arith::AndIOp>(op, isFinite, isLarge);
    return success();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

class ExpandMathPass : public fuse::impl::ExpandMathPassBase<ExpandMathPass> {
public:
  using Base::Base;

  /// Emits an error for the first op that must be expanded and that `filter`
  /// accepts.
  LogicalResult refuse(function_ref<bool(Operation *)> filter) {
    WalkResult result = getOperation()->walk([&](Operation *op) {
      if (!isMeant(op) || !filter(op))
        return WalkResult::advance();
      op->emitOpError("has no expansion for operands of type ")
          << op->getOperand(0).getType();
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  void runOnOperation() override {
    // The approximations combine operands with scalars and vectors, which is
    // not valid for tensors.
    if (failed(refuse([](Operation *op) {
          return isa<TensorType>(op->getOperand(0).getType());
        })))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    SmallVector<StringRef> expanded(std::begin(kExpanded), std::end(kExpanded));
    math::populateExpansionPatterns(patterns, expanded);
    auto isApproximated = [](StringRef name) {
      return contains(kApproximated, name);
    };
    populateMathF32ExpansionPatterns(patterns, [&](StringRef name) {
      return contains(kExpanded, name) || isApproximated(name) ||
             name == math::Log10Op::getOperationName();
    });
    populateMathPolynomialApproximationPatterns(patterns, isApproximated);
    patterns.add<ExpandRemainder, ExpandLog10, ExpandClass<math::IsInfOp>,
                 ExpandClass<math::IsNormalOp>>(&getContext());
    getOperation()->walk([&](Operation *op) { numExpanded += isMeant(op); });
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();

    if (failed(refuse([](Operation *) { return true; })))
      signalPassFailure();
  }
};

} // namespace
