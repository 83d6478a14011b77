//===- FuseLayerOps.cpp - Verifiers and folders of layer ops --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseVerify.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

bool fuse::isLayerOp(Operation *op) {
  return isa<RMSNormOp, LayerNormOp, LinearOp, ActivationOp, GatedMulOp,
             ResidualAddOp, QuantizeOp, DequantizeOp>(op);
}

RankedTensorType fuse::withElementType(Type type, Type element) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), element);
}

bool fuse::isQuantized(Type elementType) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(elementType) ||
         elementType.isSignlessInteger(8);
}

/// The type of an optional operand, or null.
static RankedTensorType typeOf(Value value) {
  return value ? cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

bool fuse::isAddressable(RankedTensorType type) {
  int64_t elements = 1;
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size) || size == 0)
      continue;
    if (size > kMaxElements / elements)
      return false;
    elements *= size;
  }
  return true;
}

LogicalResult fuse::verifyTensor(EmitError emitError, StringRef name,
                                 RankedTensorType type) {
  if (type.getRank() == 0)
    return emitError() << "'" << name << "' needs a feature dimension, got "
                       << type;
  int64_t features = type.getShape().back();
  if (ShapedType::isDynamic(features))
    return emitError() << "feature dimension of '" << name
                       << "' must be static, got " << type;
  if (features == 0)
    return emitError() << "feature dimension of '" << name
                       << "' must not be empty, got " << type;
  if (!isAddressable(type))
    return emitError() << "'" << name << "' has more than " << kMaxElements
                       << " elements, got " << type;
  return success();
}

LogicalResult fuse::verifySameShape(EmitError emitError, StringRef firstName,
                                    RankedTensorType first,
                                    StringRef secondName,
                                    RankedTensorType second) {
  if (failed(verifyCompatibleShape(first, second)))
    return emitError() << "'" << firstName << "' and '" << secondName
                       << "' must have the same shape, got " << first << " and "
                       << second;
  return verifyTensor(emitError, secondName, second);
}

LogicalResult fuse::verifyVector(EmitError emitError, StringRef name,
                                 RankedTensorType type, StringRef sizeName,
                                 int64_t size) {
  if (!type)
    return success();
  if (type.getRank() != 1 || type.getShape().front() != size)
    return emitError() << "'" << name << "' must have one entry per "
                       << sizeName << " (" << size << "), got " << type;
  return success();
}

LogicalResult fuse::verifyNorm(EmitError emitError, NormKind kind,
                               RankedTensorType x, RankedTensorType weight,
                               RankedTensorType bias, FloatAttr eps,
                               int64_t offset, RankedTensorType y) {
  if (failed(verifyTensor(emitError, "x", x)) ||
      failed(verifySameShape(emitError, "x", x, "y", y)))
    return failure();
  int64_t features = x.getShape().back();
  if (failed(verifyVector(emitError, "weight", weight, "feature", features)) ||
      failed(verifyVector(emitError, "bias", bias, "feature", features)))
    return failure();
  double value = eps.getValueAsDouble();
  if (!(value >= 0.0) || std::isinf(static_cast<float>(value)))
    return emitError() << "eps must be finite and not negative, got " << value;
  if (kind == NormKind::RMS && bias)
    return emitError() << "an rms norm has no bias";
  if (offset != 0 && offset != 1)
    return emitError() << "offset must be 0 or 1, got " << offset;
  if (offset == 1 && !weight)
    return emitError() << "offset 1 needs a weight to be added to";
  return success();
}

/// Verifies the scales of a weight that `quant` describes.
static LogicalResult verifyWeightScale(EmitError emitError, QuantAttr quant,
                                       RankedTensorType weight,
                                       RankedTensorType scale) {
  if (quant.isPacked())
    return emitError() << "multiplies no packed codes; expected the result of "
                          "fuse.dequantize_weight";
  int64_t out = weight.getShape()[0], in = weight.getShape()[1];
  if (weight.getElementType() != quant.getStorageType())
    return emitError() << "'weight' must be stored as "
                       << quant.getStorageType() << ", which 'quant' states, "
                       << "got " << weight;
  SmallVector<int64_t> expected = quant.getWeightScaleShape(out, in);
  if (!scale || scale.getShape() != ArrayRef(expected))
    return emitError() << "'channel_scale' must be "
                       << RankedTensorType::get(
                              expected, Float32Type::get(weight.getContext()))
                       << " for a weight of " << out << "x" << in
                       << " with weights = "
                       << stringifyScaleGranularity(quant.getWeights())
                       << ", got " << scale;
  return success();
}

LogicalResult fuse::verifyLinear(EmitError emitError,
                                 const LinearTypes &types) {
  if (failed(verifyTensor(emitError, "x", types.x)) ||
      failed(verifyTensor(emitError, "y", types.y)))
    return failure();
  if (types.weight.getRank() != 2 || !types.weight.hasStaticShape())
    return emitError() << "'weight' must be a static [out, in] matrix, got "
                       << types.weight;
  if (failed(verifyTensor(emitError, "weight", types.weight)))
    return failure();
  int64_t out = types.weight.getShape()[0], in = types.weight.getShape()[1];
  if (types.x.getShape().back() != in)
    return emitError() << "'x' has " << types.x.getShape().back()
                       << " features, 'weight' expects " << in;
  if (types.y.getShape().back() != out)
    return emitError() << "'y' has " << types.y.getShape().back()
                       << " features, 'weight' returns " << out;
  if (failed(verifyCompatibleShape(types.x.getShape().drop_back(),
                                   types.y.getShape().drop_back())))
    return emitError() << "leading dimensions of 'x' and 'y' must be the "
                          "same, got "
                       << types.x << " and " << types.y;
  Type xElement = types.x.getElementType();
  Type weightElement = types.weight.getElementType();
  bool mixable = xElement == weightElement ||
                 (isa<Float8E4M3FNType, Float8E5M2Type>(xElement) &&
                  isa<Float8E4M3FNType, Float8E5M2Type>(weightElement));
  if (!mixable)
    return emitError() << "'x' and 'weight' must have the same element type "
                          "or both an 8-bit float, got "
                       << xElement << " and " << weightElement;
  if (failed(verifyVector(emitError, "bias", types.bias, "output", out)))
    return failure();
  if (types.quant)
    return verifyWeightScale(emitError, types.quant, types.weight,
                             types.channelScale);
  return verifyVector(emitError, "channel_scale", types.channelScale, "output",
                      out);
}

LogicalResult fuse::verifyPackedWeight(EmitError emitError, QuantAttr quant,
                                       RankedTensorType q, TypeRange scales,
                                       Type element, RankedTensorType &result) {
  if (!quant.isPacked())
    return emitError() << "needs 'quant' with weights = group, got "
                       << stringifyScaleGranularity(quant.getWeights());
  if (failed(verifyTensor(emitError, "weight", q)))
    return failure();
  if (q.getRank() != 2 || !q.hasStaticShape() ||
      !q.getElementType().isSignlessInteger(8))
    return emitError() << "'weight' must be a static [out, in / 2] matrix of "
                          "i8, got "
                       << q;
  int64_t out = q.getShape()[0], in = 2 * q.getShape()[1];
  int64_t group = quant.getBlockColumns();
  if (in % group != 0)
    return emitError() << "'weight' has " << in << " inputs, which groups of "
                       << group << " do not divide";
  SmallVector<int64_t> shape = quant.getWeightScaleShape(out, in);
  SmallVector<std::pair<StringRef, Type>> expected = {
      {"scale", RankedTensorType::get(shape, quant.getScaleOperandType())}};
  Builder builder(quant.getContext());
  if (quant.getHasGroupZeros())
    expected.push_back(
        {"zero points", RankedTensorType::get(shape, builder.getI8Type())});
  if (quant.getTensorScale() != TensorScale::None)
    expected.push_back(
        {"tensor scale", RankedTensorType::get({1}, builder.getF32Type())});
  if (scales.size() != expected.size())
    return emitError() << "expected " << expected.size()
                       << " operands with scales of 'weight', got "
                       << scales.size();
  for (auto [entry, type] : llvm::zip_equal(expected, scales))
    if (entry.second != type)
      return emitError() << "'" << entry.first << "' of a weight of " << out
                         << "x" << in << " must be " << entry.second << ", got "
                         << type;
  result = RankedTensorType::get({out, in}, element);
  return success();
}

LogicalResult fuse::verifyDynamicInput(EmitError emitError, QuantAttr quant,
                                       RankedTensorType x, Type storage) {
  if (quant.getActivations() == ScaleScope::None)
    return emitError() << "needs a scope of scales of activations, got none";
  if (storage != quant.getStorageType())
    return emitError() << "quantizes to " << storage << ", 'quant' states "
                       << quant.getStorageType();
  if (quant.getActivations() == ScaleScope::PerGroup &&
      x.getShape().back() % quant.getGroupSize() != 0)
    return emitError() << "'x' has " << x.getShape().back()
                       << " features, which groups of " << quant.getGroupSize()
                       << " do not divide";
  if (quant.getActivations() != ScaleScope::PerTensor && x.getRank() < 2)
    return emitError() << stringifyScaleScope(quant.getActivations())
                       << " needs a dimension of tokens, got " << x;
  return success();
}

/// Verifies dynamic scales: one number, or one per token of `x`.
static LogicalResult verifyDynamicScale(EmitError emitError, StringRef name,
                                        RankedTensorType x,
                                        RankedTensorType scale) {
  if (!scale || (scale.getRank() == 1 && scale.getShape().front() == 1) ||
      (x.getRank() > 1 && succeeded(verifyCompatibleShape(
                              x.getShape().drop_back(), scale.getShape()))))
    return success();
  return emitError() << "'" << name << "' must be tensor<1xf32> or have one "
                     << "entry per token of " << x << ", got " << scale;
}

/// Emits an error for an invalid scale attribute.
static LogicalResult verifyScale(Operation *op, StringRef name,
                                 FloatAttr scale) {
  if (!scale)
    return success();
  if (auto problem = getScaleProblem(scale.getValueAsDouble()))
    return op->emitOpError()
           << name << " " << *problem << ", got " << scale.getValueAsDouble();
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult RMSNormOp::verify() {
  return verifyNorm([&] { return emitOpError(); }, NormKind::RMS,
                    getX().getType(), typeOf(getWeight()), {}, getEpsAttr(),
                    getOffset(), getY().getType());
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyRequired(*this, {{odsIndex_x, "x"}})))
    return failure();
  if (getBias() && !getWeight())
    return emitOpError("has a bias but no weight");
  return verifyNorm([&] { return emitOpError(); }, NormKind::Layer,
                    getX().getType(), typeOf(getWeight()), typeOf(getBias()),
                    getEpsAttr(), 0, getY().getType());
}

/// Verifies a linear with `quant`, whose scales are operands.
static LogicalResult verifyQuantized(LinearOp op) {
  auto emitError = [&] { return op.emitOpError(); };
  RankedTensorType x = op.getX().getType();
  if (op.getInputScaleAttr() || op.getWeightScaleAttr())
    return op.emitOpError("with 'quant' has its scales as operands, so it has "
                          "no 'scales'");
  if (failed(verifyDynamicInput(emitError, op.getQuantAttr(), x,
                                x.getElementType())))
    return failure();
  auto expected =
      RankedTensorType::get(op.getQuantAttr().getInputScaleShape(x.getShape()),
                            Float32Type::get(op.getContext()));
  RankedTensorType scale = typeOf(op.getDynamicScale());
  if (!scale || failed(verifyCompatibleShape(scale, expected)))
    return op.emitOpError()
           << "'dynamic_scale' must be " << expected << " with activations = "
           << stringifyScaleScope(op.getQuantAttr().getActivations())
           << ", got " << scale;
  return success();
}

LogicalResult LinearOp::verify() {
  if (failed(verifyRequired(
          *this, {{odsIndex_x, "x"}, {odsIndex_weight, "weight"}})) ||
      failed(verifyLinear([&] { return emitOpError(); },
                          {getX().getType(), getWeight().getType(),
                           typeOf(getBias()), typeOf(getChannelScale()),
                           getY().getType(), getQuantAttr()})))
    return failure();
  bool quantized = isQuantized(getX().getType().getElementType());
  if (getBiasPlace() == BiasPlace::AfterRounding && !getBias())
    return emitOpError("has no bias to add after rounding");
  if (getQuantAttr())
    return verifyQuantized(*this);
  if (quantized && !getInputScaleAttr() && !getDynamicScale())
    return emitOpError("with quantized operands needs scales");
  if (!quantized && (getInputScaleAttr() || getWeightScaleAttr() ||
                     getChannelScale() || getDynamicScale()))
    return emitOpError("with floating-point operands does not support scales");
  if (getInputScaleAttr() && getDynamicScale())
    return emitOpError("has two scales for its input: a number in 'scales' "
                       "and 'dynamic_scale'");
  if (failed(verifyDynamicScale([&] { return emitOpError(); }, "dynamic_scale",
                                getX().getType(), typeOf(getDynamicScale()))))
    return failure();
  if (quantized && bool(getWeightScaleAttr()) == bool(getChannelScale()))
    return emitOpError("needs one scale for its weight: a number in 'scales', "
                       "or 'per_channel' there and 'channel_scale'");
  return failure(
      failed(verifyScale(*this, "input scale", getInputScaleAttr())) ||
      failed(verifyScale(*this, "weight scale", getWeightScaleAttr())));
}

LogicalResult ActivationOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  return failure(failed(verifyTensor(emitError, "x", getX().getType())) ||
                 failed(verifySameShape(emitError, "x", getX().getType(), "y",
                                        getY().getType())));
}

/// Verifies an elementwise op with two operands.
template <typename OpTy>
static LogicalResult verifyBinary(OpTy op) {
  auto emitError = [&] { return op.emitOpError(); };
  return failure(
      failed(verifyTensor(emitError, "lhs", op.getLhs().getType())) ||
      failed(verifySameShape(emitError, "lhs", op.getLhs().getType(), "rhs",
                             op.getRhs().getType())) ||
      failed(verifySameShape(emitError, "lhs", op.getLhs().getType(), "y",
                             op.getY().getType())));
}

LogicalResult GatedMulOp::verify() { return verifyBinary(*this); }

LogicalResult ResidualAddOp::verify() { return verifyBinary(*this); }

LogicalResult AllReduceOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  if (getAxis().empty())
    return emitOpError("needs the name of an axis in 'group'");
  if (getSize() < 2)
    return emitOpError() << "needs at least 2 ranks, got " << getSize();
  if (getBiasPlace() == BiasPlace::AfterRounding && !getBias())
    return emitOpError("has no bias to add after rounding");
  return failure(
      failed(verifyTensor(emitError, "x", getX().getType())) ||
      failed(verifySameShape(emitError, "x", getX().getType(), "y",
                             getY().getType())) ||
      failed(verifyVector(emitError, "bias", typeOf(getBias()), "feature",
                          getX().getType().getShape().back())));
}

/// Verifies the scale of a quantize or dequantize op: one number, or one per
/// index of dimension 0.
template <typename OpTy>
static LogicalResult verifyQuantization(OpTy op, RankedTensorType x,
                                        RankedTensorType q) {
  auto emitError = [&] { return op.emitOpError(); };
  if (failed(verifyTensor(emitError, "x", x)) ||
      failed(verifySameShape(emitError, "x", x, "q", q)))
    return failure();
  if (bool(op.getScaleAttr()) == bool(op.getChannelScale()))
    return op.emitOpError("needs either 'scale' or 'channel_scale'");
  if (op.getChannelScale() && x.isDynamicDim(0))
    return op.emitOpError("with 'channel_scale' needs a static dimension 0, "
                          "got ")
           << x;
  return failure(failed(verifyVector(
                     emitError, "channel_scale", typeOf(op.getChannelScale()),
                     "index of dimension 0", x.getShape().front())) ||
                 failed(verifyScale(op, "scale", op.getScaleAttr())));
}

LogicalResult QuantizeOp::verify() {
  return verifyQuantization(*this, getX().getType(), getQ().getType());
}

LogicalResult DequantizeOp::verify() {
  return verifyQuantization(*this, getX().getType(), getQ().getType());
}

LogicalResult DequantizeWeightOp::verify() {
  RankedTensorType expected, type = getX().getType();
  if (failed(verifyPackedWeight([&] { return emitOpError(); }, getQuant(),
                                getQ().getType(), getScales().getTypes(),
                                type.getElementType(), expected)))
    return failure();
  if (type != expected)
    return emitOpError() << "result must be " << expected << ", got " << type;
  return success();
}

LogicalResult DynamicQuantizeOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  if (getScope() == ScaleScope::None)
    return emitOpError("needs a scope of scales, got none");
  RankedTensorType x = getX().getType(), scale = getScale().getType();
  if (failed(verifyTensor(emitError, "x", x)) ||
      failed(verifySameShape(emitError, "x", x, "q", getQ().getType())))
    return failure();
  if (QuantAttr quant = getQuantAttr()) {
    if (quant.getActivations() != getScope())
      return emitOpError() << "measures " << stringifyScaleScope(getScope())
                           << ", 'quant' states "
                           << stringifyScaleScope(quant.getActivations());
    if (failed(verifyDynamicInput(emitError, quant, x,
                                  getQ().getType().getElementType())))
      return failure();
  }
  if (getScope() == ScaleScope::PerGroup) {
    if (!getQuantAttr())
      return emitOpError("per_group needs 'quant' with the size of a group");
    SmallVector<int64_t> shape =
        getQuantAttr().getInputScaleShape(x.getShape());
    if (scale.getShape() == ArrayRef(shape))
      return success();
    return emitOpError() << "per_group scales must be "
                         << RankedTensorType::get(shape, scale.getElementType())
                         << ", got " << scale;
  }
  if (getScope() == ScaleScope::PerTensor) {
    if (scale.getRank() == 1 && scale.getShape().front() == 1)
      return success();
    return emitOpError() << "per_tensor scale must be tensor<1xf32>, got "
                         << scale;
  }
  if (x.getRank() < 2)
    return emitOpError() << "per_token needs a dimension of tokens, got " << x;
  if (scale.getShape() != x.getShape().drop_back())
    return emitOpError() << "per_token scales must be "
                         << RankedTensorType::get(x.getShape().drop_back(),
                                                  scale.getElementType())
                         << ", got " << scale;
  return success();
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

OpFoldResult ActivationOp::fold(FoldAdaptor) {
  // The result is 0, positive or NaN, and has the final type.
  auto inner = getX().getDefiningOp<ActivationOp>();
  if (getKind() == Activation::ReLU && inner &&
      inner.getKind() == Activation::ReLU && getX().getType() == getType())
    return getX();
  return {};
}

/// Whether quantizing the real value of an i8 restores it: no real value
/// overflows or is subnormal. Rounding a real value to bf16 changes it by up to
/// 2^-9 of its magnitude, so the quotient by the scale, of up to 128, changes
/// by up to 0.25 and a little for the f32 roundings, which is less than 0.5.
static bool restoresInteger(float scale, Type real) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(real).getFloatSemantics();
  auto toDouble = [](llvm::APFloat value) { return value.convertToDouble(); };
  // The reciprocal of the scale must be a normal number, too.
  double smallest = std::max(
      toDouble(llvm::APFloat::getSmallestNormalized(semantics)), 0x1p-126);
  double largest =
      std::min(toDouble(llvm::APFloat::getLargest(semantics)) / 128, 0x1p126);
  return scale >= smallest && scale <= largest;
}

OpFoldResult QuantizeOp::fold(FoldAdaptor) {
  auto dequantize = getX().getDefiningOp<DequantizeOp>();
  if (!dequantize || !getScaleAttr() || !dequantize.getScaleAttr() ||
      dequantize.getQ().getType() != getType() ||
      !getType().getElementType().isInteger(8))
    return {};
  auto toFloat = [](FloatAttr scale) {
    return static_cast<float>(scale.getValueAsDouble());
  };
  float scale = toFloat(getScaleAttr());
  if (scale != toFloat(dequantize.getScaleAttr()) ||
      !restoresInteger(scale, getX().getType().getElementType()))
    return {};
  return dequantize.getQ();
}
