//===- Chains.cpp - Random chains of layer ops ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionGenerator.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

Value FunctionGenerator::residualAdd(Value lhs, Value rhs) {
  if (random.percent(50))
    std::swap(lhs, rhs);
  return create<ResidualAddOp>(resultType(lhs), lhs, rhs);
}

Value FunctionGenerator::norm(Value x) {
  int64_t size = cast<RankedTensorType>(x.getType()).getShape().back();
  Type element = !scheduled && random.percent(20) ? floatType() : this->element;
  auto vector = RankedTensorType::get({size}, element);
  FloatAttr eps =
      builder.getF64FloatAttr(random.oneOf<double>({1e-6, 1e-5, 0.0, 0.25}));
  Value weight = random.percent(80) ? value(vector) : Value();
  if (random.percent(30)) {
    Value bias = weight && random.percent(70) ? value(vector) : Value();
    return create<LayerNormOp>(resultType(x), x, weight, bias, eps);
  }
  auto cast = random.oneOf({NormCast::BeforeWeight, NormCast::AfterWeight});
  int64_t offset = weight ? random.below(2) : 0;
  return create<RMSNormOp>(resultType(x), x, weight, eps,
                           builder.getI64IntegerAttr(offset),
                           NormCastAttr::get(builder.getContext(), cast));
}

Value FunctionGenerator::quantize(Value x, const Quantization &how,
                                  FloatAttr scale) {
  Type storage = how.storage;
  QuantOrder order = how.order;
  if (random.percent(damage)) {
    storage = Float8E5M2Type::get(builder.getContext());
    order = QuantOrder::Divide;
  }
  return create<QuantizeOp>(type(x, storage), x, Value(), scale,
                            QuantOrderAttr::get(builder.getContext(), order));
}

/// Whether dynamic scales of `quant` fit a tensor of this shape.
static bool fits(QuantAttr quant, ArrayRef<int64_t> shape) {
  if (quant.getActivations() == ScaleScope::PerTensor)
    return true;
  return shape.size() > 1 && (quant.getActivations() == ScaleScope::PerToken ||
                              shape.back() % quant.getGroupSize() == 0);
}

/// Quantizes dynamically; the scale is the second result.
Value FunctionGenerator::quantizeDynamically(Value x, const Quantization &how) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getType()).getShape();
  if (how.dynamic && fits(how.dynamic, shape))
    return create<DynamicQuantizeOp>(
        type(x, how.storage),
        RankedTensorType::get(how.dynamic.getInputScaleShape(shape),
                              builder.getF32Type()),
        ScaleScopeAttr::get(builder.getContext(), how.dynamic.getActivations()),
        x, how.dynamic);
  bool perToken = shape.size() > 1 && random.percent(70);
  SmallVector<int64_t> scales = {1};
  if (perToken)
    scales.assign(shape.begin(), shape.end() - 1);
  return create<DynamicQuantizeOp>(
      type(x, how.storage), RankedTensorType::get(scales, builder.getF32Type()),
      ScaleScopeAttr::get(builder.getContext(), perToken
                                                    ? ScaleScope::PerToken
                                                    : ScaleScope::PerTensor),
      x);
}

/// Quantizes the input of a linear. Sets the scale that the linear receives.
Value FunctionGenerator::quantizedInput(Value x, const Quantization &how,
                                        FloatAttr &inputScale) {
  if (how.kind == Quantization::None || how.kind == Quantization::WeightOnly)
    return x;
  if (how.kind == Quantization::Dynamic)
    return quantizeDynamically(x, how);
  inputScale = scale();
  Value q = quantize(x, how, inputScale);
  if (random.percent(damage))
    inputScale = scale();
  if (how.kind == Quantization::Scaled)
    return q;
  return create<DequantizeOp>(resultType(q), q, Value(), inputScale);
}

Value FunctionGenerator::linear(Value x, int64_t outputs,
                                const Quantization &how, FloatAttr inputScale) {
  auto input = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(input.getShape());
  int64_t inputs = shape.back();
  shape.back() = outputs;
  RankedTensorType result = RankedTensorType::get(
      shape, random.percent(oddTypes) ? floatType() : element);
  Type biasElement = random.percent(oddTypes) ? floatType() : element;
  auto getBias = [&]() -> Value {
    return random.percent(30)
               ? value(RankedTensorType::get({outputs}, biasElement))
               : Value();
  };
  auto getPlace = [&](Value bias) {
    BiasPlace place = bias ? how.biasPlace : BiasPlace::BeforeRounding;
    if (bias && random.percent(damage))
      place = BiasPlace::AfterRounding;
    return BiasPlaceAttr::get(builder.getContext(), place);
  };
  auto getChannelScale = [&]() -> Value {
    return !scheduled && random.percent(25)
               ? value(RankedTensorType::get({outputs}, builder.getF32Type()))
               : Value();
  };
  if (how.kind == Quantization::None) {
    Value weight =
        value(RankedTensorType::get({outputs, inputs}, input.getElementType()));
    Value bias = getBias();
    return create<LinearOp>(result, x, weight, bias, Value(), Value(),
                            FloatAttr(), FloatAttr(), getPlace(bias));
  }
  auto dynamic = x.getDefiningOp<DynamicQuantizeOp>();
  if (QuantAttr quant = dynamic ? dynamic.getQuantAttr() : QuantAttr()) {
    Value weight =
        value(RankedTensorType::get({outputs, inputs}, input.getElementType()));
    Value weightScale = value(RankedTensorType::get(
        quant.getWeightScaleShape(outputs, inputs), builder.getF32Type()));
    Value bias = getBias();
    return create<LinearOp>(result, x, weight, bias, weightScale,
                            dynamic.getScale(), FloatAttr(), FloatAttr(),
                            getPlace(bias), quant);
  }
  Value channelScale = getChannelScale();
  FloatAttr weightScale = channelScale ? FloatAttr() : scale();
  Value bias = getBias();
  if (how.kind == Quantization::QDQ || how.kind == Quantization::WeightOnly) {
    Type storage = random.percent(20) ? builder.getI8Type() : how.storage;
    Value stored = value(RankedTensorType::get({outputs, inputs}, storage));
    Value weight = create<DequantizeOp>(type(stored, input.getElementType()),
                                        stored, channelScale, weightScale);
    return create<LinearOp>(result, x, weight, bias, Value(), Value(),
                            FloatAttr(), FloatAttr(), getPlace(bias));
  }
  Type storage = input.getElementType();
  if (!scheduled && !storage.isInteger(8) && random.percent(20))
    storage = random.oneOf<Type>({Float8E4M3FNType::get(builder.getContext()),
                                  Float8E5M2Type::get(builder.getContext())});
  Value weight = value(RankedTensorType::get({outputs, inputs}, storage));
  return create<LinearOp>(result, x, weight, bias, channelScale,
                          dynamic ? dynamic.getScale() : Value(), inputScale,
                          weightScale, getPlace(bias));
}

Value FunctionGenerator::activation(Value x) {
  auto kind = random.oneOf({Activation::SiLU, Activation::GELU,
                            Activation::GELUTanh, Activation::ReLU,
                            Activation::ReLU2, Activation::QuickGELU});
  return create<ActivationOp>(
      resultType(x), ActivationAttr::get(builder.getContext(), kind), x);
}

Value FunctionGenerator::gatedMul(Value lhs, Value rhs) {
  if (random.percent(50))
    std::swap(lhs, rhs);
  return create<GatedMulOp>(resultType(lhs), lhs, rhs);
}

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

/// `[residual_add] [norm]`
Value FunctionGenerator::head(Value x) {
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  return random.percent(70) ? norm(x) : x;
}

/// Draws one of the combinations that `#fuse.quant` allows. Sizes of groups
/// divide the number of features.
QuantAttr FunctionGenerator::drawDynamic(Type storage) {
  auto weights =
      random.oneOf({ScaleGranularity::Tensor, ScaleGranularity::Channel,
                    ScaleGranularity::Block});
  auto scope = random.oneOf(
      {ScaleScope::PerToken, ScaleScope::PerTensor, ScaleScope::PerGroup});
  // Sums of i8 are whole.
  if (storage.isInteger(8)) {
    weights = ScaleGranularity::Channel;
    scope = ScaleScope::PerToken;
  }
  int64_t group = random.oneOf<int64_t>({1, 2, 4, 8, 16, 32});
  while (features % group != 0)
    group /= 2;
  int64_t sums = group;
  if (sums % 2 == 0 && random.percent(30))
    sums /= 2;
  int64_t rows = random.oneOf<int64_t>({1, 2, 4, 16});
  int64_t columns = sums * random.oneOf<int64_t>({1, 2, 3});
  bool isBlock = weights == ScaleGranularity::Block;
  bool isGroup = scope == ScaleScope::PerGroup;
  auto floorKind = random.oneOf({ScaleFloor::Scale, ScaleFloor::AMax});
  double floor = random.oneOf({0x1p-64, 1e-4, 1e-12});
  FloatAttr upper =
      random.percent(25) ? builder.getF64FloatAttr(1200.0) : FloatAttr();
  auto scaleOp = random.oneOf({QuantOrder::Divide, QuantOrder::Reciprocal});
  auto order = random.oneOf({QuantOrder::Divide, QuantOrder::Reciprocal});
  return QuantAttr::get(builder.getContext(), storage, weights,
                        isBlock ? rows : 0, isBlock ? columns : 0, scope,
                        isGroup ? group : 0, floorKind,
                        builder.getF64FloatAttr(floor), upper, scaleOp, order,
                        isBlock || isGroup ? sums : 0, /*scaleType=*/Type(),
                        /*zeroPoint=*/std::nullopt, /*hasGroupZeros=*/false,
                        TensorScale::None);
}

Quantization FunctionGenerator::drawQuantization() {
  Quantization how;
  how.kind = random.oneOf({Quantization::None, Quantization::None,
                           Quantization::Scaled, Quantization::QDQ,
                           Quantization::WeightOnly, Quantization::Dynamic});
  how.storage = random.oneOf<Type>({Float8E4M3FNType::get(builder.getContext()),
                                    Float8E5M2Type::get(builder.getContext()),
                                    builder.getI8Type()});
  how.order = random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  how.biasPlace =
      random.percent(25) ? BiasPlace::AfterRounding : BiasPlace::BeforeRounding;
  if (how.kind == Quantization::Dynamic && random.percent(60))
    how.dynamic = drawDynamic(how.storage);
  return how;
}

int64_t FunctionGenerator::width(std::initializer_list<int64_t> any) {
  if (boundary)
    return boundary->width;
  // Kernels with a deferred epilogue require hidden layers that fill their
  // tiles.
  if (drawn)
    return random.oneOf<int64_t>({64, 128, 144, 256, 256, 384, 512, 512});
  if (scheduled)
    return random.oneOf<int64_t>({16, 48, 64, 128, 144, 256, 400, 528});
  return random.oneOf<int64_t>(any);
}

Quantization FunctionGenerator::quantization() {
  if (boundary)
    return boundary->how;
  if (!scheduled)
    return drawQuantization();
  Quantization how;
  how.kind = random.oneOf({Quantization::None, Quantization::Scaled});
  how.storage = Float8E4M3FNType::get(builder.getContext());
  how.order = random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  return how;
}

void FunctionGenerator::mlp() {
  Quantization how = quantization();
  Value start = stream(), x = head(start);
  // The stream before the norm may be added to the result.
  Value sum = x.getDefiningOp() ? x.getDefiningOp()->getOperand(0) : start;
  FloatAttr inputScale, hiddenScale;
  Value input = quantizedInput(x, how, inputScale);
  int64_t width = this->width({1, 3, 32, 65});
  if (how.dynamic && how.dynamic.getGroupSize() != 0)
    width = llvm::alignTo(width, how.dynamic.getGroupSize());
  bool gated = random.percent(60), upFirst = random.percent(30);
  Value up;
  if (gated && upFirst)
    up = linear(input, width, how, inputScale);
  Value hidden = activation(linear(input, width, how, inputScale));
  if (gated && !upFirst)
    up = linear(random.percent(damage) ? quantizedInput(x, how, inputScale)
                                       : input,
                width, how, inputScale);
  if (gated)
    hidden = gatedMul(hidden, up);
  Quantization inner = random.percent(damage) ? drawQuantization() : how;
  Value down = quantizedInput(hidden, inner, hiddenScale);
  int64_t outputs = scheduled || boundary || random.percent(80) ? features : 7;
  Value y = linear(down, outputs, inner, hiddenScale);
  if (!random.percent(50))
    return;
  auto sumType = cast<RankedTensorType>(sum.getType());
  bool fits =
      sumType.getElementType() == element &&
      sumType.getShape() == cast<RankedTensorType>(y.getType()).getShape();
  residualAdd(fits && random.percent(70) ? sum : value(y.getType()), y);
}

void FunctionGenerator::normLinear() {
  Quantization how = quantization();
  Value x = stream();
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  FloatAttr inputScale;
  Value input = quantizedInput(norm(x), how, inputScale);
  for (unsigned i = random.below(4) + 1; i > 0; --i)
    linear(input, width({1, 16, 33}), how, inputScale);
}

void FunctionGenerator::normQuantize() {
  Quantization how = quantization();
  Value x = stream();
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  quantize(norm(x), how, scale());
}

void FunctionGenerator::actQuantize() {
  Quantization how = quantization();
  Value x = activation(stream());
  if (random.percent(60))
    x = gatedMul(x, value(x.getType()));
  quantize(x, how, scale());
}

void FunctionGenerator::chain() {
  size_t first = values.size();
  // Row kernels have only one schedule.
  unsigned family = boundary ? boundary->family : random.below(6);
  if (drawn && (family == 1 || family == 2))
    family = random.below(6);
  switch (family) {
  case 0:
    normLinear();
    break;
  case 1:
    normQuantize();
    break;
  case 2:
    actQuantize();
    break;
  default:
    mlp();
    break;
  }
  SmallVector<Value> made(values.begin() + first, values.end());
  for (Value value : made)
    if (random.percent(damage))
      secondUser(value);
}
