//===- ExpandSmallFloats.cpp - Convert small floats by integer arithmetic -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts between f32 and bf16, f8E4M3FN and f8E5M2 by bit arithmetic, and
// between integers and 8-bit floats through f32. The result does not depend on
// whether the target flushes subnormal f32 values. Arithmetic on a subnormal
// value rounds it to the same code as zero.
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/ReplacementCounter.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace fuse {
#define GEN_PASS_DEF_EXPANDSMALLFLOATSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-expand-small-floats"

using namespace mlir;
using namespace fuse;

static bool isFloat8(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

namespace {

/// Builds bit arithmetic on scalars or on vectors of one shape.
class BitBuilder : public ImplicitLocOpBuilder {
public:
  BitBuilder(OpBuilder &builder, Location loc, Type shape)
      : ImplicitLocOpBuilder(loc, builder), shape(shape) {}

  /// The type `element`, or a vector of it.
  Type like(Type element) {
    auto vector = dyn_cast<VectorType>(shape);
    return vector ? Type(vector.clone(element)) : element;
  }
  Type ints(unsigned width) { return like(getIntegerType(width)); }

  Value splat(Type type, int64_t value) {
    TypedAttr attr = getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, Attribute(attr));
    return arith::ConstantOp::create(*this, attr);
  }
  Value splat(float value) {
    TypedAttr attr = getF32FloatAttr(value);
    if (auto vector = dyn_cast<VectorType>(shape))
      attr =
          DenseElementsAttr::get(vector.clone(getF32Type()), Attribute(attr));
    return arith::ConstantOp::create(*this, attr);
  }

  Value bitcast(Type type, Value value) {
    return arith::BitcastOp::create(*this, type, value);
  }
  Value extend(Type type, Value value) {
    return arith::ExtUIOp::create(*this, type, value);
  }
  Value truncate(Type type, Value value) {
    return arith::TruncIOp::create(*this, type, value);
  }
  template <typename OpTy>
  Value binary(Value lhs, int64_t rhs) {
    return OpTy::create(*this, lhs, splat(lhs.getType(), rhs));
  }
  Value andBits(Value value, int64_t mask) {
    return binary<arith::AndIOp>(value, mask);
  }
  Value orBits(Value value, int64_t mask) {
    return binary<arith::OrIOp>(value, mask);
  }
  Value left(Value value, int64_t bits) {
    return binary<arith::ShLIOp>(value, bits);
  }
  Value right(Value value, int64_t bits) {
    return binary<arith::ShRUIOp>(value, bits);
  }
  Value add(Value value, int64_t addend) {
    return binary<arith::AddIOp>(value, addend);
  }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(*this, lhs, rhs);
  }
  Value either(Value lhs, Value rhs) {
    return arith::OrIOp::create(*this, lhs, rhs);
  }
  Value greater(Value value, int64_t bound) {
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ugt, value,
                                 splat(value.getType(), bound));
  }
  Value less(Value value, int64_t bound) {
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ult, value,
                                 splat(value.getType(), bound));
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(*this, condition, yes, no);
  }

  /// The bits above `dropped`, rounded to nearest even.
  Value roundBits(Value bits, int64_t dropped) {
    Value odd = andBits(right(bits, dropped), 1);
    return right(add(add(bits, (int64_t(1) << (dropped - 1)) - 1), odd),
                 dropped);
  }

private:
  Type shape;
};

/// The differences between f8E4M3FN and f8E5M2.
struct Float8Format {
  int64_t mantissa;
  int64_t bias;
  /// The largest finite code.
  int64_t largest;
  /// The code of values beyond the range.
  int64_t overflow;

  static Float8Format get(Type element) {
    if (isa<Float8E4M3FNType>(element))
      return {3, 7, 0x7e, 0x7f};
    return {2, 15, 0x7b, 0x7c};
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// Converts a bf16 value to f32.
static Value extendBF16(BitBuilder &b, Value value) {
  Value bits = b.extend(b.ints(32), b.bitcast(b.ints(16), value));
  return b.bitcast(b.like(b.getF32Type()), b.left(bits, 16));
}

static Value truncateToBF16(BitBuilder &b, Value value) {
  Value bits = b.bitcast(b.ints(32), value);
  Value isNaN = b.greater(b.andBits(bits, 0x7fffffff), 0x7f800000);
  // A NaN keeps its upper payload and becomes quiet. Otherwise, dropping the
  // lower payload could turn it into infinity.
  Value quiet = b.orBits(b.right(bits, 16), 0x40);
  Value code = b.select(isNaN, quiet, b.roundBits(bits, 16));
  return b.bitcast(b.like(b.getBF16Type()), b.truncate(b.ints(16), code));
}

/// Converts an 8-bit float to f32.
static Value extendFloat8(BitBuilder &b, Value value, Type element) {
  Type f32 = b.like(b.getF32Type()), f16 = b.like(b.getF16Type());
  Value code = b.extend(b.ints(16), b.bitcast(b.ints(8), value));
  // f8E5M2 is the upper half of f16.
  if (isa<Float8E5M2Type>(element))
    return arith::ExtFOp::create(b, f32, b.bitcast(f16, b.left(code, 8)));
  // The exponent of f8E4M3FN has one bit less than that of f16. Its bits placed
  // in an f16 therefore have an exponent that is too small by 8.
  Value sign = b.left(b.andBits(code, 0x80), 8);
  Value magnitude = b.andBits(code, 0x7f);
  Value half = b.bitcast(f16, b.either(sign, b.left(magnitude, 7)));
  Value scaled = arith::MulFOp::create(b, arith::ExtFOp::create(b, f32, half),
                                       b.splat(256.0f));
  Value isNaN = b.greater(magnitude, 0x7e);
  Value bits = b.orBits(b.bitcast(b.ints(32), scaled), 0x7fc00000);
  return b.select(isNaN, b.bitcast(f32, bits), scaled);
}

static Value truncateToFloat8(BitBuilder &b, Value value, Type element) {
  Float8Format format = Float8Format::get(element);
  int64_t dropped = 23 - format.mantissa;
  Value bits = b.bitcast(b.ints(32), value);
  Value magnitude = b.andBits(bits, 0x7fffffff);

  // Normal results: round the mantissa, then change the bias.
  Value normal = b.add(b.roundBits(magnitude, dropped),
                       -((127 - format.bias) << format.mantissa));
  normal = b.select(b.greater(normal, format.largest),
                    b.splat(b.ints(32), format.overflow), normal);

  // Subnormal results: add a power of two whose last bit has the weight of the
  // last bit of the result, so that the addition rounds. For other values, the
  // operand is replaced by 0, so that no NaN takes part.
  int64_t anchorBits = (1 - format.bias + dropped + 127) << 23;
  Value isSmall = b.less(magnitude, (128 - format.bias) << 23);
  Value small = b.select(isSmall, magnitude, b.splat(b.ints(32), 0));
  Value anchor =
      b.bitcast(b.like(b.getF32Type()), b.splat(b.ints(32), anchorBits));
  Value sum = arith::AddFOp::create(b, b.bitcast(b.like(b.getF32Type()), small),
                                    anchor);
  Value subnormal = b.add(b.bitcast(b.ints(32), sum), -anchorBits);

  Value isNaN = b.greater(magnitude, 0x7f800000);
  Value quiet = b.splat(b.ints(32), 0x7f);
  if (isa<Float8E5M2Type>(element))
    quiet = b.orBits(b.andBits(b.right(magnitude, dropped), 3), 0x7e);
  Value code = b.select(isNaN, quiet, b.select(isSmall, subnormal, normal));
  Value sign = b.andBits(b.right(bits, 24), 0x80);
  return b.bitcast(b.like(element),
                   b.truncate(b.ints(8), b.either(code, sign)));
}

//===----------------------------------------------------------------------===//
// Patterns and pass
//===----------------------------------------------------------------------===//

/// Whether the op is a named linalg op, whose body follows from its operands.
static bool hasFixedBody(Operation *op) {
  return isa_and_present<linalg::LinalgOp>(op) &&
         !isa<linalg::GenericOp, linalg::MapOp, linalg::ReduceOp>(op);
}

namespace {

struct ExpandExtF : OpRewritePattern<arith::ExtFOp> {
  ExpandExtF(MLIRContext *context, bool f8, bool bf16)
      : OpRewritePattern(context), f8(f8), bf16(bf16) {}

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    Type to = getElementTypeOrSelf(op.getType());
    if (isa<TensorType>(op.getType()))
      return rewriter.notifyMatchFailure(op, "is on tensors");
    if (hasFixedBody(op->getParentOp()))
      return rewriter.notifyMatchFailure(op, "is in a fixed body");
    if (!(f8 && isFloat8(from)) && !(bf16 && from.isBF16()))
      return rewriter.notifyMatchFailure(op, "operand is not to be expanded");
    BitBuilder b(rewriter, op.getLoc(), op.getType());
    Value value = from.isBF16() ? extendBF16(b, op.getIn())
                                : extendFloat8(b, op.getIn(), from);
    if (to.isF64())
      value = arith::ExtFOp::create(b, op.getType(), value);
    else if (to.isBF16() && bf16)
      value = truncateToBF16(b, value);
    else if (!to.isF32())
      value = arith::TruncFOp::create(b, op.getType(), value);
    rewriter.replaceOp(op, value);
    return success();
  }

  bool f8, bf16;
};

struct ExpandTruncF : OpRewritePattern<arith::TruncFOp> {
  ExpandTruncF(MLIRContext *context, bool f8, bool bf16)
      : OpRewritePattern(context), f8(f8), bf16(bf16) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    Type to = getElementTypeOrSelf(op.getType());
    if (isa<TensorType>(op.getType()))
      return rewriter.notifyMatchFailure(op, "is on tensors");
    if (hasFixedBody(op->getParentOp()))
      return rewriter.notifyMatchFailure(op, "is in a fixed body");
    if (!(f8 && isFloat8(to)) && !(bf16 && to.isBF16()))
      return rewriter.notifyMatchFailure(op, "result is not to be expanded");
    if (!from.isF32() && !from.isBF16() && !from.isF16())
      return rewriter.notifyMatchFailure(op, "would round twice");
    if (op.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
        arith::RoundingMode::to_nearest_even)
      return rewriter.notifyMatchFailure(op, "rounds another way");
    BitBuilder b(rewriter, op.getLoc(), op.getType());
    Value value = op.getIn();
    if (from.isBF16())
      value = extendBF16(b, value);
    else if (from.isF16())
      value = arith::ExtFOp::create(b, b.like(b.getF32Type()), value);
    value =
        to.isBF16() ? truncateToBF16(b, value) : truncateToFloat8(b, value, to);
    rewriter.replaceOp(op, value);
    return success();
  }

  bool f8, bf16;
};

/// Converts an integer to an 8-bit float through f32. That rounds once: f32
/// represents every integer in the range of an 8-bit float.
template <typename OpTy>
struct ExpandIntegerToFloat8 : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Type to = getElementTypeOrSelf(op.getType());
    if (!isFloat8(to) || isa<TensorType>(op.getType()) ||
        hasFixedBody(op->getParentOp()))
      return rewriter.notifyMatchFailure(op, "result is not to be expanded");
    BitBuilder b(rewriter, op.getLoc(), op.getType());
    Value wide = OpTy::create(b, b.like(b.getF32Type()), op.getIn());
    rewriter.replaceOp(op, truncateToFloat8(b, wide, to));
    return success();
  }
};

/// Converts an 8-bit float to an integer through f32, which is exact.
template <typename OpTy>
struct ExpandFloat8ToInteger : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Type from = getElementTypeOrSelf(op.getIn().getType());
    if (!isFloat8(from) || isa<TensorType>(op.getType()) ||
        hasFixedBody(op->getParentOp()))
      return rewriter.notifyMatchFailure(op, "operand is not to be expanded");
    BitBuilder b(rewriter, op.getLoc(), op.getType());
    Value wide = extendFloat8(b, op.getIn(), from);
    rewriter.replaceOpWithNewOp<OpTy>(op, op.getType(), wide);
    return success();
  }
};

/// Emits an error for a conversion where it cannot be expanded.
LogicalResult verifyPlace(Operation *op) {
  // Ops in fixed bodies have no location.
  if (Operation *parent = op->getParentOp(); hasFixedBody(parent))
    return parent->emitOpError("has a fixed body, in which '")
           << op->getName()
           << "' cannot be expanded; linalg-generalize-named-ops makes a "
              "linalg.generic of it";
  if (isa<TensorType>(op->getResult(0).getType()))
    return op->emitOpError("expected scalars or vectors to expand, but got ")
           << op->getOperand(0).getType()
           << "; convert-elementwise-to-linalg makes scalars of it";
  return success();
}

struct ExpandSmallFloatsPass
    : fuse::impl::ExpandSmallFloatsPassBase<ExpandSmallFloatsPass> {
  using Base::Base;

  /// Whether the options ask for an expansion of conversions of `value`.
  bool isExpanded(Value value) const {
    Type element = getElementTypeOrSelf(value);
    return (f8 && isFloat8(element)) || (bf16 && element.isBF16());
  }

  /// Whether the options ask for an expansion of `op`.
  bool isExpanded(Operation *op) const {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      return isExpanded(op->getOperand(0)) || isExpanded(op->getResult(0));
    // LLVM converts between integers and bf16.
    return f8 &&
           isa<arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
               arith::FPToUIOp>(op) &&
           (isFloat8(getElementTypeOrSelf(op->getOperand(0))) ||
            isFloat8(getElementTypeOrSelf(op->getResult(0))));
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateExpandSmallFloatsPatterns(patterns, f8, bf16);
    ReplacementCounter expanded(numExpanded);
    walkAndApplyPatterns(getOperation(), std::move(patterns), &expanded);
    WalkResult result = getOperation()->walk([&](Operation *op) {
      if (!isExpanded(op))
        return WalkResult::advance();
      return WalkResult(verifyPlace(op));
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace

void fuse::populateExpandSmallFloatsPatterns(RewritePatternSet &patterns,
                                             bool f8, bool bf16) {
  MLIRContext *context = patterns.getContext();
  patterns.add<ExpandExtF, ExpandTruncF>(context, f8, bf16);
  if (f8)
    patterns.add<ExpandIntegerToFloat8<arith::SIToFPOp>,
                 ExpandIntegerToFloat8<arith::UIToFPOp>,
                 ExpandFloat8ToInteger<arith::FPToSIOp>,
                 ExpandFloat8ToInteger<arith::FPToUIOp>>(context);
}
