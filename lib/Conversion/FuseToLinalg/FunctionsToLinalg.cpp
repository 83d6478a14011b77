//===- FunctionsToLinalg.cpp - Function ops to linalg ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gathers are `tensor.extract` ops in the body of a structured op. Each index
// is first brought into bounds, for any values of the operands. Elements that
// were read at a replaced index are not used.
//
//===----------------------------------------------------------------------===//

#include "LayerBuilder.h"
#include "fuse/Conversion/FuseToLinalg/FuseToLinalg.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

#include <limits>

using namespace mlir;
using namespace fuse;
using arith::CmpIPredicate;
using mlir::utils::IteratorType;

//===----------------------------------------------------------------------===//
// Structured ops of any rank
//===----------------------------------------------------------------------===//

/// An operand and the loop of each of its dimensions.
struct LoopInput {
  Value value;
  SmallVector<unsigned> loops;
};

/// An output: its element type, its loops, and the initial value of a
/// reduction.
struct LoopOutput {
  Type element;
  SmallVector<unsigned> loops;
  TypedAttr init;
};

using LoopBody =
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)>;

/// Builds one `linalg.generic` over loops of the given sizes. A loop along
/// which no output varies is a reduction.
static SmallVector<Value> loopNest(ImplicitLocOpBuilder &b,
                                   ArrayRef<OpFoldResult> sizes,
                                   ArrayRef<LoopInput> inputs,
                                   ArrayRef<LoopOutput> outputs,
                                   LoopBody body) {
  auto getMap = [&](ArrayRef<unsigned> loops) {
    SmallVector<AffineExpr> exprs;
    for (unsigned loop : loops)
      exprs.push_back(b.getAffineDimExpr(loop));
    return AffineMap::get(sizes.size(), 0, exprs, b.getContext());
  };
  SmallVector<Value> values, inits;
  SmallVector<AffineMap> maps;
  SmallVector<IteratorType> iterators(sizes.size(), IteratorType::reduction);
  for (const LoopInput &input : inputs) {
    values.push_back(input.value);
    maps.push_back(getMap(input.loops));
  }
  for (const LoopOutput &output : outputs) {
    SmallVector<OpFoldResult> shape;
    for (unsigned loop : output.loops) {
      shape.push_back(sizes[loop]);
      iterators[loop] = IteratorType::parallel;
    }
    Value init = tensor::EmptyOp::create(b, shape, output.element);
    if (output.init)
      init = linalg::FillOp::create(
                 b, arith::ConstantOp::create(b, output.init).getResult(), init)
                 .getResult(0);
    inits.push_back(init);
    maps.push_back(getMap(output.loops));
  }
  auto op = linalg::GenericOp::create(
      b, TypeRange(ValueRange(inits)), values, inits, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        ImplicitLocOpBuilder inner(loc, nested);
        linalg::YieldOp::create(inner, body(inner, args));
      });
  return SmallVector<Value>(op.getResults());
}

static Value constantIndex(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

static Value compare(ImplicitLocOpBuilder &b, CmpIPredicate predicate,
                     Value lhs, Value rhs) {
  return arith::CmpIOp::create(b, predicate, lhs, rhs);
}

static Value select(ImplicitLocOpBuilder &b, Value condition, Value yes,
                    Value no) {
  return arith::SelectOp::create(b, condition, yes, no);
}

/// Casts `value` so that sizes that are static in its type or in `shape` are
/// static.
static Value refine(ImplicitLocOpBuilder &b, Value value,
                    ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> sizes(type.getShape());
  for (auto [size, other] : llvm::zip_equal(sizes, shape))
    if (ShapedType::isDynamic(size))
      size = other;
  auto refined = RankedTensorType::get(sizes, type.getElementType());
  return refined == type ? value : tensor::CastOp::create(b, refined, value);
}

/// The type of a product of these types in PyTorch.
static Type promote(Type lhs, Type rhs) {
  return lhs == rhs ? lhs : Float32Type::get(lhs.getContext());
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {

struct LowerRotary : OpRewritePattern<RotaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RotaryOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    RankedTensorType type = op.getY().getType();
    Value x = refine(b, op.getX(), type.getShape());
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), x);
    auto loops = llvm::to_vector(llvm::seq<unsigned>(0, sizes.size()));
    Value y =
        loopNest(b, sizes, {{x, loops}}, {{type.getElementType(), loops, {}}},
                 [&](ImplicitLocOpBuilder &b, ValueRange args) {
                   return SmallVector<Value>{turn(b, op, x, args[0])};
                 })[0];
    if (y.getType() != type)
      y = tensor::CastOp::create(b, type, y);
    rewriter.replaceOp(op, y);
    return success();
  }

  /// One element of the result; `own` is the element of `x` at the same index.
  static Value turn(ImplicitLocOpBuilder &b, RotaryOp op, Value x, Value own) {
    RankedTensorType type = op.getCos().getType();
    int64_t turned = type.getShape().back(), last = type.getRank();
    Type product =
        promote(op.getX().getType().getElementType(), type.getElementType());
    SmallVector<Value> ivs;
    for (int64_t loop = 0; loop <= last; ++loop)
      ivs.push_back(linalg::IndexOp::create(b, loop));
    Value feature = ivs[last], half = constantIndex(b, turned / 2);
    Value first = compare(b, CmpIPredicate::ult, feature, half);
    Value above = arith::AddIOp::create(b, feature, half);
    Value below = arith::SubIOp::create(b, feature, half);
    Value partner = select(b, first, above, below);
    Value inside, angle = feature;
    if (turned < op.getX().getType().getShape().back()) {
      inside =
          compare(b, CmpIPredicate::ult, feature, constantIndex(b, turned));
      partner = select(b, inside, partner, feature);
      angle = select(b, inside, feature, constantIndex(b, 0));
    }

    SmallVector<Value> position;
    for (int64_t loop = 0; loop < last; ++loop)
      if (loop != static_cast<int64_t>(op.getHeads()))
        position.push_back(ivs[loop]);
    // Size 1 is broadcast over the indices of `x`.
    for (auto [dim, index] : llvm::enumerate(position))
      index = getSharedIndex(b, op, dim, index);
    position.push_back(angle);
    ivs[last] = partner;
    Value other = widen(b, tensor::ExtractOp::create(b, x, ivs));
    other =
        select(b, first, arith::NegFOp::create(b, other).getResult(), other);
    Value cos = tensor::ExtractOp::create(b, op.getCos(), position);
    Value sin = tensor::ExtractOp::create(b, op.getSin(), position);
    auto rounded = [&](Value lhs, Value rhs) {
      return widen(b, roundTo(b, mul(b, lhs, widen(b, rhs)), product));
    };
    own = widen(b, own);
    Value straight = rounded(own, cos), crossed = rounded(other, sin);
    Value sum = add(b, straight, crossed);
    if (inside)
      sum = select(b, inside, sum, own);
    return roundTo(b, sum, op.getY().getType().getElementType());
  }

  /// Returns `index` of dimension `dim` of cos and sin, or 0 if the size is 1.
  static Value getSharedIndex(ImplicitLocOpBuilder &b, RotaryOp op, int64_t dim,
                              Value index) {
    bool isOne = op.getCos().getType().getDimSize(dim) == 1 ||
                 op.getSin().getType().getDimSize(dim) == 1;
    return isOne ? constantIndex(b, 0) : index;
  }
};

struct LowerCrossEntropy : OpRewritePattern<CrossEntropyOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CrossEntropyOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getLogits().getType();
    SmallVector<int64_t> shape(op.getLabels().getType().getShape());
    shape.push_back(type.getShape().back());
    LayerBuilder b(rewriter, op.getLoc(), {type.getShape(), shape},
                   type.getRank() - 1);
    Value logits = b.flatten(op.getLogits());
    Value labels = refine(b, op.getLabels(), type.getShape().drop_back());
    Value length = getValueOrCreateConstantIndexOp(
        b, op.getLoc(),
        tensor::getMixedSize(b, op.getLoc(), labels, type.getRank() - 2));
    labels = b.flattenPerToken(labels);
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(b, op.getLoc(), logits);
    if (op.getCausal())
      labels = shift(b, op, labels, length, sizes[0]);
    Value losses = getLosses(b, op, logits, labels, sizes);
    rewriter.replaceOp(op, reduce(b, op, losses, labels, sizes[0]));
    return success();
  }

  static Value getIgnored(ImplicitLocOpBuilder &b, CrossEntropyOp op,
                          Type type) {
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(type, op.getIgnoreIndex()));
  }

  /// For each row, the label of the next position.
  static Value shift(ImplicitLocOpBuilder &b, CrossEntropyOp op, Value labels,
                     Value length, OpFoldResult rows) {
    Type type = getElementTypeOrSelf(labels.getType());
    return loopNest(
        b, rows, {}, {{type, {0}, {}}},
        [&](ImplicitLocOpBuilder &b, ValueRange) -> SmallVector<Value> {
          Value row = linalg::IndexOp::create(b, 0);
          Value one = constantIndex(b, 1);
          Value next = arith::AddIOp::create(b, row, one);
          Value position = arith::RemUIOp::create(b, row, length);
          Value last = arith::SubIOp::create(b, length, one);
          Value isLast = compare(b, CmpIPredicate::eq, position, last);
          Value source = select(b, isLast, row, next);
          Value label = tensor::ExtractOp::create(b, labels, source);
          return {select(b, isLast, getIgnored(b, op, type), label)};
        })[0];
  }

  /// The loss of each row; 0 for an ignored row. Makes two passes over the
  /// logits: one for the maximum, one for the sum and the logit of the label.
  static Value getLosses(ImplicitLocOpBuilder &b, CrossEntropyOp op,
                         Value logits, Value labels,
                         ArrayRef<OpFoldResult> sizes) {
    Type f32 = b.getF32Type();
    TypedAttr zero = b.getF32FloatAttr(0.0f);
    TypedAttr lowest =
        b.getF32FloatAttr(-std::numeric_limits<float>::infinity());
    Value largest = loopNest(
        b, sizes, {{logits, {0, 1}}}, {{f32, {0}, lowest}},
        [](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          return {arith::MaximumFOp::create(b, widen(b, args[0]), args[1])};
        })[0];
    auto getColumn = [](ImplicitLocOpBuilder &b, Value label) -> Value {
      return arith::IndexCastOp::create(b, b.getIndexType(), label);
    };
    SmallVector<Value> sums = loopNest(
        b, sizes, {{logits, {0, 1}}, {largest, {0}}, {labels, {0}}},
        {{f32, {0}, zero}, {f32, {0}, zero}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          Value x = widen(b, args[0]);
          Value below = arith::SubFOp::create(b, x, args[1]);
          Value label = getColumn(b, args[2]);
          Value isLabel = compare(b, CmpIPredicate::eq, label,
                                  linalg::IndexOp::create(b, 1));
          Value picked = select(b, isLabel, x, constantF32(b, 0.0f));
          return {add(b, math::ExpOp::create(b, below), args[3]),
                  add(b, picked, args[4])};
        });
    int64_t vocabulary = op.getLogits().getType().getShape().back();
    return loopNest(
        b, sizes[0],
        {{largest, {0}}, {sums[0], {0}}, {sums[1], {0}}, {labels, {0}}},
        {{f32, {0}, {}}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          Value log = math::LogOp::create(b, args[1]);
          Value loss = arith::SubFOp::create(b, add(b, args[0], log), args[2]);
          Value label = getColumn(b, args[3]);
          Value isKnown = compare(b, CmpIPredicate::ult, label,
                                  constantIndex(b, vocabulary));
          Value nan = constantF32(b, std::numeric_limits<float>::quiet_NaN());
          loss = select(b, isKnown, loss, nan);
          Value isIgnored = compare(b, CmpIPredicate::eq, args[3],
                                    getIgnored(b, op, args[3].getType()));
          return {select(b, isIgnored, constantF32(b, 0.0f), loss)};
        })[0];
  }

  /// Reduces the losses of all rows to one number.
  static Value reduce(ImplicitLocOpBuilder &b, CrossEntropyOp op, Value losses,
                      Value labels, OpFoldResult rows) {
    Type f32 = b.getF32Type(), i64 = b.getI64Type();
    Value total = loopNest(
        b, rows, {{losses, {0}}}, {{f32, {}, b.getF32FloatAttr(0.0f)}},
        [](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          return {add(b, args[0], args[1])};
        })[0];
    Value divisor = op.getItems();
    if (op.getReduction() == LossReduction::Mean)
      divisor = loopNest(
          b, rows, {{labels, {0}}}, {{i64, {}, b.getI64IntegerAttr(0)}},
          [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
            Value counts = compare(b, CmpIPredicate::ne, args[0],
                                   getIgnored(b, op, args[0].getType()));
            Value one = arith::ExtUIOp::create(b, i64, counts);
            return {arith::AddIOp::create(b, one, args[1])};
          })[0];
    if (!divisor)
      return total;
    return loopNest(
        b, {}, {{total, {}}, {divisor, {}}}, {{f32, {}, {}}},
        [](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          return {arith::DivFOp::create(b, args[0], widen(b, args[1]))};
        })[0];
  }
};

struct LowerMoEExperts : OpRewritePattern<MoEExpertsOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MoEExpertsOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    RankedTensorType type = op.getY().getType();
    Type f32 = b.getF32Type(), element = op.getX().getType().getElementType();
    TypedAttr zero = b.getF32FloatAttr(0.0f);
    // Any operand with one row per token may have a static number of tokens.
    SmallVector<int64_t> tokens = {ShapedType::kDynamic};
    for (Type other : {op.getX().getType(), op.getIndex().getType(),
                       op.getWeights().getType(), type})
      if (int64_t size = cast<RankedTensorType>(other).getDimSize(0);
          !ShapedType::isDynamic(size))
        tokens = {size};
    auto refineTokens = [&](Value value) {
      return refine(
          b, value,
          {tokens[0], cast<RankedTensorType>(value.getType()).getDimSize(1)});
    };
    Value x = refineTokens(op.getX()), index = refineTokens(op.getIndex());
    Value weights = refineTokens(op.getWeights());
    Value gateUp = op.getGateUp(), down = op.getDown();
    int64_t features = type.getDimSize(1);
    int64_t hidden = op.getDown().getType().getDimSize(2);
    OpFoldResult rows = tensor::getMixedSize(b, op.getLoc(), x, 0);
    OpFoldResult chosen = b.getIndexAttr(op.getIndex().getType().getDimSize(1));
    OpFoldResult numFeatures = b.getIndexAttr(features);
    OpFoldResult numHidden = b.getIndexAttr(hidden);

    // Loops: token, choice, hidden, feature.
    SmallVector<Value> projected = loopNest(
        b, {rows, chosen, numHidden, numFeatures},
        {{x, {0, 3}}, {index, {0, 1}}},
        {{f32, {0, 1, 2}, zero}, {f32, {0, 1, 2}, zero}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          Value expert = getExpert(b, op, args[1]).first;
          Value row = linalg::IndexOp::create(b, 2);
          Value column = linalg::IndexOp::create(b, 3);
          Value upRow = arith::AddIOp::create(b, row, constantIndex(b, hidden));
          Value value = widen(b, args[0]);
          auto accumulate = [&](Value row, Value sum) -> Value {
            Value weight = tensor::ExtractOp::create(
                b, gateUp, ValueRange{expert, row, column});
            return math::FmaOp::create(b, value, widen(b, weight), sum);
          };
          return {accumulate(row, args[2]), accumulate(upRow, args[3])};
        });
    Value product = loopNest(
        b, {rows, chosen, numHidden},
        {{projected[0], {0, 1, 2}}, {projected[1], {0, 1, 2}}},
        {{element, {0, 1, 2}, {}}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          auto rounded = [&](Value value) {
            return widen(b, roundTo(b, value, element));
          };
          Value act = rounded(activate(b, op.getAct(), rounded(args[0])));
          return {roundTo(b, mul(b, act, rounded(args[1])), element)};
        })[0];
    // Loops: token, choice, feature, hidden.
    Value returned = loopNest(
        b, {rows, chosen, numFeatures, numHidden},
        {{product, {0, 1, 3}}, {index, {0, 1}}}, {{f32, {0, 1, 2}, zero}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          Value expert = getExpert(b, op, args[1]).first;
          Value weight = tensor::ExtractOp::create(
              b, down,
              ValueRange{expert, linalg::IndexOp::create(b, 2),
                         linalg::IndexOp::create(b, 3)});
          return {math::FmaOp::create(b, widen(b, args[0]), widen(b, weight),
                                      args[2])};
        })[0];
    // Loops: token, choice, feature.
    Type promoted =
        promote(element, op.getWeights().getType().getElementType());
    Value sum = loopNest(
        b, {rows, chosen, numFeatures},
        {{returned, {0, 1, 2}}, {weights, {0, 1}}, {index, {0, 1}}},
        {{f32, {0, 2}, zero}},
        [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
          Value isHere = getExpert(b, op, args[2]).second;
          Value value = widen(b, roundTo(b, args[0], element));
          value = mul(b, value, widen(b, args[1]));
          value = widen(b, roundTo(b, value, promoted));
          value = widen(b, roundTo(b, value, element));
          value = select(b, isHere, value, constantF32(b, 0.0f));
          return {add(b, value, args[3])};
        })[0];
    if (!type.getElementType().isF32())
      sum = loopNest(
          b, {rows, numFeatures}, {{sum, {0, 1}}},
          {{type.getElementType(), {0, 1}, {}}},
          [&](ImplicitLocOpBuilder &b, ValueRange args) -> SmallVector<Value> {
            return {roundTo(b, args[0], type.getElementType())};
          })[0];
    if (sum.getType() != type)
      sum = tensor::CastOp::create(b, type, sum);
    rewriter.replaceOp(op, sum);
    return success();
  }

  /// The index of the expert to read, and whether it is the expert of `index`.
  static std::pair<Value, Value> getExpert(ImplicitLocOpBuilder &b,
                                           MoEExpertsOp op, Value index) {
    int64_t experts = op.getDown().getType().getDimSize(0);
    Value expert = arith::IndexCastOp::create(b, b.getIndexType(), index);
    Value isHere =
        compare(b, CmpIPredicate::ult, expert, constantIndex(b, experts));
    return {select(b, isHere, expert, constantIndex(b, 0)), isHere};
  }
};

} // namespace

void fuse::populateFunctionToLinalgPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerCrossEntropy, LowerMoEExperts, LowerRotary>(
      patterns.getContext());
}
