//===- FuseToLinalg.cpp - Layers and kernels to linalg --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fused ops are replaced by their decomposition, so only layer ops need
// patterns. Each layer becomes one to four structured ops on rank-2 tensors.
// They compute in f32 and round once at the end.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToLinalg/FuseToLinalg.h"
#include "LayerBuilder.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/IR/FuseVerify.h"
#include "fuse/Support/ReplacementCounter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "stage/IR/StageOps.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTFUSETOLINALGPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "convert-fuse-to-linalg"

using namespace mlir;
using namespace fuse;

static float toF32(FloatAttr attr) {
  return static_cast<float>(attr.getValueAsDouble());
}

//===----------------------------------------------------------------------===//
// Numbers that follow from static scales
//===----------------------------------------------------------------------===//

/// The scales of an op whose product or reciprocal its code reads.
struct ScaleNumber {
  SmallVector<FloatAttr, 2> scales;
  bool isReciprocal = false;

  float getValue() const {
    float value = toF32(scales.front());
    for (FloatAttr scale : llvm::drop_begin(scales))
      value *= toF32(scale);
    return isReciprocal ? 1.0f / value : value;
  }

  /// The value of `fuse.scalar`.
  DictionaryAttr getAttr(Builder &b) const {
    SmallVector<Attribute> factors;
    for (FloatAttr scale : scales)
      factors.push_back(b.getF32FloatAttr(toF32(scale)));
    NamedAttribute value =
        b.getNamedAttr("value", b.getF32FloatAttr(getValue()));
    NamedAttribute source = isReciprocal
                                ? b.getNamedAttr("over", factors.front())
                                : b.getNamedAttr("of", b.getArrayAttr(factors));
    return b.getDictionaryAttr({source, value});
  }
};

/// The number of a linear, or of the end of one.
template <typename OpTy>
static std::optional<ScaleNumber> getProductNumber(OpTy op) {
  ScaleNumber number;
  for (FloatAttr scale : {op.getInputScaleAttr(), op.getWeightScaleAttr()})
    if (scale)
      number.scales.push_back(scale);
  if (number.scales.empty())
    return std::nullopt;
  return number;
}

/// The number that the code of an op reads, if it has static scales. Fused ops
/// have been decomposed.
static std::optional<ScaleNumber> getScaleNumber(Operation *op) {
  if (auto quantize = dyn_cast<QuantizeOp>(op)) {
    if (FloatAttr scale = quantize.getScaleAttr())
      return ScaleNumber{{scale}, quantize.getOrder() != QuantOrder::Divide};
  } else if (auto dequantize = dyn_cast<DequantizeOp>(op)) {
    if (FloatAttr scale = dequantize.getScaleAttr())
      return ScaleNumber{{scale}};
  } else if (auto linear = dyn_cast<LinearOp>(op)) {
    return getProductNumber(linear);
  } else if (auto finish = dyn_cast<stage::FinishOp>(op)) {
    return getProductNumber(finish);
  }
  return std::nullopt;
}

/// Adds an argument for the number of each op below `root`, and returns the
/// arguments by their ops. Adds none if a private function has such an op,
/// because its callers would have to pass the number.
static DenseMap<Operation *, Value> addScaleArguments(Operation *root) {
  SmallVector<std::pair<Operation *, ScaleNumber>> found;
  bool allPublic = true;
  root->walk([&](Operation *op) {
    std::optional<ScaleNumber> number = getScaleNumber(op);
    if (!number)
      return;
    auto function = op->getParentOfType<func::FuncOp>();
    allPublic &= function && function.isPublic();
    found.push_back({op, std::move(*number)});
  });
  DenseMap<Operation *, Value> arguments;
  Builder builder(root->getContext());
  if (!allPublic) {
    root->walk([&](func::FuncOp function) {
      if (function.isPublic())
        function->setAttr(kConstantScalesAttrName, builder.getUnitAttr());
    });
    return arguments;
  }
  DenseMap<std::pair<Operation *, Attribute>, Value> known;
  for (auto &[op, number] : found) {
    auto function = op->getParentOfType<func::FuncOp>();
    DictionaryAttr scalar = number.getAttr(builder);
    Value &argument = known[{function, scalar}];
    if (!argument) {
      unsigned index = function.getNumArguments();
      // Inserting after the last argument cannot fail.
      (void)function.insertArgument(
          index, builder.getF32Type(),
          builder.getDictionaryAttr(
              builder.getNamedAttr(kScalarAttrName, scalar)),
          op->getLoc());
      argument = function.getArgument(index);
    }
    arguments[op] = argument;
  }
  return arguments;
}

/// The number of an op: an argument of its function, or a constant.
static Value getNumber(ImplicitLocOpBuilder &b, Operation *op,
                       const DenseMap<Operation *, Value> *arguments) {
  if (arguments)
    if (Value argument = arguments->lookup(op))
      return argument;
  return constantF32(b, getScaleNumber(op)->getValue());
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Maximum size in bytes of a constant in code, because LLVM stores it element
/// by element. A larger one must be an argument.
static constexpr int64_t kMostConstantBytes = int64_t(1) << 28;

static LogicalResult checkConstants(Operation *root) {
  WalkResult result = root->walk([](arith::ConstantOp op) {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!type || llvm::is_contained(type.getShape(), 0))
      return WalkResult::advance();
    int64_t bytes = llvm::divideCeil(type.getElementType().isIntOrFloat()
                                         ? type.getElementTypeBitWidth()
                                         : IndexType::kInternalStorageBitWidth,
                                     8);
    for (int64_t size : type.getShape())
      if (llvm::MulOverflow(bytes, size, bytes) || bytes > kMostConstantBytes) {
        op.emitOpError() << "of type " << type << " is too large for code: "
                         << "expected at most " << kMostConstantBytes
                         << " bytes, pass it as an argument";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Creates a builder for a layer whose operands and results have one shape.
template <typename... Types>
static LayerBuilder getRowBuilder(PatternRewriter &rewriter, Operation *op,
                                  RankedTensorType type, Types... types) {
  return LayerBuilder(rewriter, op->getLoc(),
                      {type.getShape(), types.getShape()...},
                      type.getRank() - 1);
}

/// How an elementwise op reads the scales of a dynamic quantize op.
static Access getScaleAccess(Value scale) {
  auto type = cast<RankedTensorType>(scale.getType());
  return type.getRank() == 1 && type.getDimSize(0) == 1 ? Access::Single
                                                        : Access::PerRow;
}

/// Creates a builder for a quantize or dequantize op, and its inputs. With one
/// scale per index of dimension 0, that dimension is the rows.
template <typename OpTy>
static LayerBuilder getScaleBuilder(PatternRewriter &rewriter, OpTy op,
                                    RankedTensorType from, RankedTensorType to,
                                    SmallVector<LayerInput> &inputs) {
  unsigned numRowDims = op.getChannelScale() ? 1 : to.getRank() - 1;
  LayerBuilder b(rewriter, op.getLoc(), {to.getShape(), from.getShape()},
                 numRowDims);
  inputs.push_back({b.flatten(op->getOperand(0))});
  if (op.getChannelScale())
    inputs.push_back({op.getChannelScale(), Access::PerRow});
  return b;
}

/// The dynamic scales of a linear, one row per token.
static Value flattenScale(LayerBuilder &b, LinearOp op) {
  return op.getQuantAttr().getActivations() == ScaleScope::PerGroup
             ? b.flatten(op.getDynamicScale())
             : b.flattenPerToken(op.getDynamicScale());
}

/// The stored value to which the largest magnitude is mapped.
static float getLargestAim(Type stored) {
  if (stored.isInteger())
    return 127.0f;
  return APFloat::getLargest(cast<FloatType>(stored).getFloatSemantics())
      .convertToFloat();
}

/// The scale for the largest magnitude `amax` of the values that share it.
static Value computeScale(ImplicitLocOpBuilder &b, Value amax, QuantAttr quant,
                          Type stored) {
  float largest = getLargestAim(stored);
  bool boundsScale = !quant || quant.getFloorKind() == ScaleFloor::Scale;
  float floor = quant ? toF32(quant.getFloor()) : 0x1p-64f;
  if (!boundsScale)
    amax = arith::MaximumFOp::create(b, amax, constantF32(b, floor));
  if (quant && quant.getUpper())
    amax = arith::MinimumFOp::create(b, amax,
                                     constantF32(b, toF32(quant.getUpper())));
  Value scale;
  if (quant && quant.getScaleOp() == QuantOrder::Reciprocal)
    scale = mul(b, amax, 1.0f / largest);
  else
    scale = arith::DivFOp::create(b, amax, constantF32(b, largest));
  if (boundsScale)
    scale = arith::MaximumFOp::create(b, scale, constantF32(b, floor));
  return scale;
}

namespace {

struct DecomposeFusedOp : OpInterfaceRewritePattern<FusedOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(FusedOpInterface op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, op.decompose(rewriter).results);
    return success();
  }
};

/// A pattern for a layer that may have static scales.
template <typename LayerOp>
struct LowerScaled : OpRewritePattern<LayerOp> {
  /// `arguments` has the numbers of ops that are no constants.
  LowerScaled(MLIRContext *context,
              const DenseMap<Operation *, Value> *arguments)
      : OpRewritePattern<LayerOp>(context), arguments(arguments) {}

  const DenseMap<Operation *, Value> *arguments;
};

struct LowerRMSNorm : OpRewritePattern<RMSNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RMSNormOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getY().getType();
    LayerBuilder b = getRowBuilder(rewriter, op, type, op.getX().getType());
    Value x = b.flatten(op.getX());
    Value sum =
        b.sumOfRows({{x}}, [](ImplicitLocOpBuilder &b, ValueRange args) {
          Value value = widen(b, args[0]);
          return math::FmaOp::create(b, value, value, args[1]).getResult();
        });
    Value scale = b.elementwiseOnRows(
        sum, getReciprocalRoot(type.getShape().back(), toF32(op.getEpsAttr())));
    SmallVector<LayerInput> inputs = {{x}, {scale, Access::PerRow}};
    if (op.getWeight())
      inputs.push_back({op.getWeight(), Access::PerColumn});
    Value y = b.elementwise(type.getElementType(), inputs,
                            [&](ImplicitLocOpBuilder &b, ValueRange args) {
                              Value value = normalizeRMS(
                                  b, args[0], args[1],
                                  op.getWeight() ? args[2] : Value(),
                                  op.getCast(), op.getOffset());
                              return roundTo(b, value, type.getElementType());
                            });
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }

  /// A body that computes `1 / sqrt(sum / features + eps)`.
  static std::function<Value(ImplicitLocOpBuilder &, ValueRange)>
  getReciprocalRoot(int64_t features, float eps) {
    return [=](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return reciprocalRoot(b, args[0], features, eps);
    };
  }
};

struct LowerLayerNorm : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(LayerNormOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getY().getType();
    int64_t features = type.getShape().back();
    LayerBuilder b = getRowBuilder(rewriter, op, type, op.getX().getType());
    Value x = b.flatten(op.getX());
    Value sum =
        b.sumOfRows({{x}}, [](ImplicitLocOpBuilder &b, ValueRange args) {
          return add(b, args[1], widen(b, args[0]));
        });
    Value mean = b.elementwiseOnRows(
        sum, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
          Value size = constantF32(b, static_cast<float>(features));
          return arith::DivFOp::create(b, args[0], size);
        });
    auto center = [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
      return arith::SubFOp::create(b, widen(b, args[0]), args[1]);
    };
    // A second pass over the row avoids the cancellation of mean(x^2) -
    // mean(x)^2.
    Value squares =
        b.sumOfRows({{x}, {mean, Access::PerRow}},
                    [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                      Value value = center(b, args);
                      return math::FmaOp::create(b, value, value, args[2]);
                    });
    Value scale = b.elementwiseOnRows(
        squares,
        LowerRMSNorm::getReciprocalRoot(features, toF32(op.getEpsAttr())));
    SmallVector<LayerInput> inputs = {
        {x}, {mean, Access::PerRow}, {scale, Access::PerRow}};
    for (Value vector : {op.getWeight(), op.getBias()})
      if (vector)
        inputs.push_back({vector, Access::PerColumn});
    Value y = b.elementwise(type.getElementType(), inputs,
                            [&](ImplicitLocOpBuilder &b, ValueRange args) {
                              Value value = normalizeLayer(
                                  b, center(b, args), args[2],
                                  op.getWeight() ? args[3] : Value(),
                                  op.getBias() ? args[4] : Value());
                              return roundTo(b, value, type.getElementType());
                            });
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }
};

/// Scales a sum, adds the bias of a linear or of a finish, and rounds. Sums of
/// blocks have been scaled.
template <typename OpTy>
Value finishSum(LayerBuilder &b, OpTy op, Value y, bool hasBlocks,
                const DenseMap<Operation *, Value> *arguments) {
  Type element = op.getY().getType().getElementType();
  QuantAttr quant = op.getQuantAttr();
  SmallVector<LayerInput> inputs = {{y}};
  unsigned dynamicAt = 0, channelAt = 0, biasAt = 0;
  auto addInput = [&](Value value, Access access, unsigned &at) {
    at = inputs.size();
    inputs.push_back({value, access});
  };
  if (Value scale = op.getDynamicScale(); scale && !hasBlocks)
    addInput(b.flattenPerToken(scale), getScaleAccess(scale), dynamicAt);
  if (Value scale = op.getChannelScale(); scale && !hasBlocks)
    addInput(scale,
             quant && quant.getWeights() == ScaleGranularity::Tensor
                 ? Access::Single
                 : Access::PerColumn,
             channelAt);
  if (Value bias = op.getBias())
    addInput(bias, Access::PerColumn, biasAt);
  return b.elementwise(
      element, inputs, [&](ImplicitLocOpBuilder &b, ValueRange args) {
        Value value = widen(b, args[0]);
        if (dynamicAt) {
          Value weightScale =
              channelAt ? args[channelAt] : getNumber(b, op, arguments);
          value = mul(b, value, mul(b, args[dynamicAt], weightScale));
        } else if (channelAt) {
          value = mul(b, value,
                      mul(b, args[channelAt], getNumber(b, op, arguments)));
        } else if (op.getInputScaleAttr()) {
          value = mul(b, value, getNumber(b, op, arguments));
        }
        if (biasAt) {
          if (op.getBiasPlace() == BiasPlace::AfterRounding)
            value = widen(b, roundTo(b, value, element));
          value = add(b, value, widen(b, args[biasAt]));
        }
        return roundTo(b, value, element);
      });
}

struct LowerLinear : LowerScaled<LinearOp> {
  using LowerScaled::LowerScaled;

  LogicalResult matchAndRewrite(LinearOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType xType = op.getX().getType(), type = op.getY().getType();
    // The two tensors have equal sizes except for the last one.
    SmallVector<int64_t> xShape(xType.getShape());
    xShape.back() = type.getShape().back();
    LayerBuilder b(rewriter, op.getLoc(), {type.getShape(), xShape},
                   type.getRank() - 1);
    QuantAttr quant = op.getQuantAttr();
    bool hasBlocks = quant && quant.hasBlockSums();
    Value x = b.flatten(op.getX());
    Value y = hasBlocks
                  ? b.productOfBlocks(x, op.getWeight(), flattenScale(b, op),
                                      op.getChannelScale(), quant)
                  : b.product(x, op.getWeight());

    if (isQuantized(xType.getElementType()) || op.getBias() ||
        !type.getElementType().isF32())
      y = finishSum(b, op, y, hasBlocks, arguments);
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }
};

/// Lowers the end of a linear, whose sum is the total of K-slices.
struct LowerFinish : LowerScaled<stage::FinishOp> {
  using LowerScaled::LowerScaled;

  LogicalResult matchAndRewrite(stage::FinishOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getY().getType();
    LayerBuilder b = getRowBuilder(
        rewriter, op, type, cast<RankedTensorType>(op.getSum().getType()));
    Value y = finishSum(b, op, b.flatten(op.getSum()), /*hasBlocks=*/false,
                        arguments);
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }
};

/// Replaces a graph of stages by its layer ops.
struct LowerGraph : OpRewritePattern<stage::GraphOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stage::GraphOp op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, lowerGraph(op, rewriter, stage::Slices::Keep));
    return success();
  }
};

struct LowerActivation : OpRewritePattern<ActivationOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ActivationOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getY().getType();
    LayerBuilder b = getRowBuilder(rewriter, op, type, op.getX().getType());
    Value y = b.elementwise(type.getElementType(), {{b.flatten(op.getX())}},
                            [&](ImplicitLocOpBuilder &b, ValueRange args) {
                              Value value =
                                  activate(b, op.getKind(), widen(b, args[0]));
                              return roundTo(b, value, type.getElementType());
                            });
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }
};

/// Lowers an elementwise op with two operands to `ArithOp` in f32.
template <typename LayerOp, typename ArithOp>
struct LowerBinary : OpRewritePattern<LayerOp> {
  using OpRewritePattern<LayerOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(LayerOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getY().getType();
    LayerBuilder b = getRowBuilder(rewriter, op, type, op.getLhs().getType(),
                                   op.getRhs().getType());
    Value lhs = b.flatten(op.getLhs()), rhs = b.flatten(op.getRhs());
    Value y = b.elementwise(type.getElementType(), {{lhs}, {rhs}},
                            [&](ImplicitLocOpBuilder &b, ValueRange args) {
                              Value value = ArithOp::create(
                                  b, widen(b, args[0]), widen(b, args[1]));
                              return roundTo(b, value, type.getElementType());
                            });
    rewriter.replaceOp(op, b.restore(y, type));
    return success();
  }
};

struct LowerQuantize : LowerScaled<QuantizeOp> {
  using LowerScaled::LowerScaled;

  LogicalResult matchAndRewrite(QuantizeOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getQ().getType();
    SmallVector<LayerInput> inputs;
    LayerBuilder b =
        getScaleBuilder(rewriter, op, op.getX().getType(), type, inputs);
    bool divide = op.getOrder() == QuantOrder::Divide;
    Value q = b.elementwise(
        type.getElementType(), inputs,
        [&](ImplicitLocOpBuilder &b, ValueRange args) {
          Value value = widen(b, args[0]);
          bool isStatic = !!op.getScaleAttr();
          if (divide) {
            Value divisor = isStatic ? getNumber(b, op, arguments) : args[1];
            value = arith::DivFOp::create(b, value, divisor);
          } else {
            Value factor =
                isStatic
                    ? getNumber(b, op, arguments)
                    : arith::DivFOp::create(b, constantF32(b, 1.0f), args[1])
                          .getResult();
            value = mul(b, value, factor);
          }
          return saturateTo(b, value, type.getElementType());
        });
    rewriter.replaceOp(op, b.restore(q, type));
    return success();
  }
};

struct LowerDynamicQuantize : OpRewritePattern<DynamicQuantizeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DynamicQuantizeOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getQ().getType();
    Type stored = type.getElementType();
    LayerBuilder b = getRowBuilder(rewriter, op, type, op.getX().getType());
    Value x = b.flatten(op.getX());
    QuantAttr quant = op.getQuantAttr();
    bool perTensor = op.getScope() == ScaleScope::PerTensor;
    bool perGroup = op.getScope() == ScaleScope::PerGroup;
    // A maximum that propagates NaN does not depend on the order of its terms.
    Value amax =
        perGroup
            ? b.maxOfGroups(x, quant.getGroupSize())
            : b.sumOfRows(
                  {{x}}, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                    Value magnitude =
                        math::AbsFOp::create(b, widen(b, args[0]));
                    return arith::MaximumFOp::create(b, args[1], magnitude);
                  });
    if (perTensor)
      amax = b.reduceVector(
          amax, [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
            return arith::MaximumFOp::create(b, args[1], args[0]);
          });
    auto getScale = [&](ImplicitLocOpBuilder &b, ValueRange args) {
      return computeScale(b, args[0], quant, stored);
    };
    Value scale = perGroup ? b.elementwise(b.getF32Type(), {{amax}}, getScale)
                           : b.elementwiseOnRows(amax, getScale);
    LayerInput divisor = {scale, perTensor ? Access::Single : Access::PerRow};
    if (perGroup)
      divisor.map =
          AffineMap::get(2, 0,
                         {b.getAffineDimExpr(0),
                          b.getAffineDimExpr(1).floorDiv(quant.getGroupSize())},
                         b.getContext());
    bool divides = quant && quant.getOrder() == QuantOrder::Divide;
    Value q = b.elementwise(
        stored, {{x}, divisor}, [&](ImplicitLocOpBuilder &b, ValueRange args) {
          Value value = widen(b, args[0]);
          if (divides)
            value = arith::DivFOp::create(b, value, args[1]);
          else
            value =
                mul(b, value,
                    arith::DivFOp::create(b, constantF32(b, 1.0f), args[1]));
          return saturateTo(b, value, stored);
        });
    RankedTensorType scaleType = op.getScale().getType();
    rewriter.replaceOp(op, {b.restore(q, type),
                            perGroup ? b.restore(scale, scaleType)
                                     : b.restorePerToken(scale, scaleType)});
    return success();
  }
};

struct LowerDequantize : LowerScaled<DequantizeOp> {
  using LowerScaled::LowerScaled;

  LogicalResult matchAndRewrite(DequantizeOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getX().getType();
    SmallVector<LayerInput> inputs;
    LayerBuilder b =
        getScaleBuilder(rewriter, op, op.getQ().getType(), type, inputs);
    Value x =
        b.elementwise(type.getElementType(), inputs,
                      [&](ImplicitLocOpBuilder &b, ValueRange args) {
                        Value factor = op.getScaleAttr()
                                           ? getNumber(b, op, arguments)
                                           : args[1];
                        return roundTo(b, mul(b, widen(b, args[0]), factor),
                                       type.getElementType());
                      });
    rewriter.replaceOp(op, b.restore(x, type));
    return success();
  }
};

struct LowerDequantizeWeight : OpRewritePattern<DequantizeWeightOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DequantizeWeightOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType type = op.getX().getType();
    LayerBuilder b(rewriter, op.getLoc(), {type.getShape()}, 1);
    rewriter.replaceOp(op, b.unpack(op.getQ(), op.getScales(), op.getQuant(),
                                    type.getElementType()));
    return success();
  }
};

struct ConvertFuseToLinalgPass
    : fuse::impl::ConvertFuseToLinalgPassBase<ConvertFuseToLinalgPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkConstants(getOperation())))
      return signalPassFailure();
    RewritePatternSet fused(&getContext()), layers(&getContext());
    populateFusedOpDecompositionPatterns(fused);
    DenseMap<Operation *, Value> arguments;
    populateLayerToLinalgPatterns(layers, &arguments);
    populateFunctionToLinalgPatterns(layers);
    FrozenRewritePatternSet frozen(std::move(fused));
    auto isFused = [&](Operation *op) {
      return WalkResult(failure(op != getOperation() &&
                                isa<FusedOpInterface, stage::GraphOp>(op)));
    };
    // A group may contain fused ops.
    ReplacementCounter decomposed(numDecomposed);
    while (getOperation()->walk(isFused).wasInterrupted())
      walkAndApplyPatterns(getOperation(), frozen, &decomposed);
    if (scaleArguments)
      arguments = addScaleArguments(getOperation());
    llvm::SmallPtrSet<Value, 8> added(llvm::from_range,
                                      llvm::make_second_range(arguments));
    numScalars += added.size();
    // One walk in program order, because a layer reads its sizes from the
    // reshapes of the layer before it.
    ReplacementCounter lowered(numLowered);
    walkAndApplyPatterns(getOperation(), std::move(layers), &lowered);
  }
};

} // namespace

void fuse::populateFusedOpDecompositionPatterns(RewritePatternSet &patterns) {
  patterns.add<DecomposeFusedOp, LowerGraph>(patterns.getContext());
}

void fuse::populateLayerToLinalgPatterns(
    RewritePatternSet &patterns,
    const DenseMap<Operation *, Value> *arguments) {
  patterns.add<LowerActivation, LowerBinary<GatedMulOp, arith::MulFOp>,
               LowerBinary<ResidualAddOp, arith::AddFOp>, LowerDequantizeWeight,
               LowerDynamicQuantize, LowerLayerNorm, LowerRMSNorm>(
      patterns.getContext());
  patterns.add<LowerDequantize, LowerFinish, LowerLinear, LowerQuantize>(
      patterns.getContext(), arguments);
}
