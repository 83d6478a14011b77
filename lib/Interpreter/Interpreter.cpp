//===- Interpreter.cpp - Functions by their contracts ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Interpreter/Interpreter.h"
#include "fuse/Interpreter/FunctionMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "stage/IR/StageOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fuse;

static Type getElement(Value value) {
  return value ? getElementTypeOrSelf(value.getType()) : Type();
}

static Rounding getRounding(Value result) { return {getElement(result)}; }

static std::optional<double> getNumber(FloatAttr attr) {
  if (!attr)
    return std::nullopt;
  return attr.getValueAsDouble();
}

//===----------------------------------------------------------------------===//
// Layer ops
//===----------------------------------------------------------------------===//

void Interpreter::runLayer(RMSNormOp norm) {
  NormParts parts{NormKind::RMS, norm.getEps().convertToDouble()};
  parts.offset = norm.getOffset();
  parts.cast = norm.getCast();
  parts.weight = getIf(norm.getWeight());
  parts.inputType = getElement(norm.getX());
  parts.weightType = getElement(norm.getWeight());
  set(norm, normalize(get(norm.getX()), parts, getRounding(norm)));
}

void Interpreter::runLayer(LayerNormOp norm) {
  NormParts parts{NormKind::Layer, norm.getEps().convertToDouble()};
  parts.weight = getIf(norm.getWeight());
  parts.bias = getIf(norm.getBias());
  set(norm, normalize(get(norm.getX()), parts, getRounding(norm)));
}

void Interpreter::runLayer(LinearOp linear) {
  LinearParts parts;
  parts.bias = getIf(linear.getBias());
  parts.isBiasAfterRounding = linear.getBiasPlace() == BiasPlace::AfterRounding;
  parts.isInteger = getElement(linear.getX()).isInteger();
  parts.inputScale = getNumber(linear.getInputScaleAttr());
  parts.weightScale = getNumber(linear.getWeightScaleAttr());
  parts.dynamicScale = getIf(linear.getDynamicScale());
  parts.channelScale = getIf(linear.getChannelScale());
  parts.quant = linear.getQuantAttr();
  set(linear, multiplyWeights(get(linear.getX()), get(linear.getWeight()),
                              parts, getRounding(linear)));
}

void Interpreter::runLayer(ActivationOp activation) {
  set(activation, activate(activation.getKind(), get(activation.getX()),
                           getRounding(activation)));
}

void Interpreter::runLayer(GatedMulOp product) {
  set(product, multiplyTensors(get(product.getLhs()), get(product.getRhs()),
                               getRounding(product)));
}

void Interpreter::runLayer(ResidualAddOp sum) {
  set(sum, addTensors(get(sum.getLhs()), get(sum.getRhs()), getRounding(sum)));
}

void Interpreter::runLayer(QuantizeOp quantized) {
  set(quantized,
      quantize(get(quantized.getX()), getNumber(quantized.getScaleAttr()),
               getIf(quantized.getChannelScale()), quantized.getOrder(),
               getElement(quantized)));
}

void Interpreter::runLayer(DequantizeOp real) {
  set(real, dequantize(get(real.getQ()), getNumber(real.getScaleAttr()),
                       getIf(real.getChannelScale()), getRounding(real)));
}

void Interpreter::runLayer(DequantizeWeightOp real) {
  SmallVector<const Tensor *> scales;
  for (Value scale : real.getScales())
    scales.push_back(&get(scale));
  set(real, dequantizeWeight(get(real.getQ()), scales, real.getQuant(),
                             getRounding(real)));
}

void Interpreter::runLayer(DynamicQuantizeOp dynamic) {
  auto [q, scales] =
      quantizeDynamically(get(dynamic.getX()), dynamic.getScope(),
                          dynamic.getQuantAttr(), getElement(dynamic.getQ()));
  set(dynamic.getQ(), std::move(q));
  set(dynamic.getScale(), std::move(scales));
}

void Interpreter::runLayer(RotaryOp rotary) {
  Type x = getElement(rotary.getX()), cos = getElement(rotary.getCos());
  set(rotary,
      rotate(get(rotary.getX()), get(rotary.getCos()), get(rotary.getSin()),
             rotary.getHeads(), x == cos ? x : Float32Type::get(x.getContext()),
             getRounding(rotary)));
}

void Interpreter::runLayer(CrossEntropyOp loss) {
  LossParts parts{loss.getReduction()};
  parts.isCausal = loss.getCausal();
  parts.ignoreIndex = loss.getIgnoreIndex();
  parts.items = getIf(loss.getItems());
  set(loss,
      getCrossEntropy(get(loss.getLogits()), get(loss.getLabels()), parts));
}

void Interpreter::runLayer(MoEExpertsOp experts) {
  Type x = getElement(experts.getX());
  Type factor = getElement(experts.getWeights());
  Routing routing{get(experts.getIndex()), get(experts.getWeights()),
                  x == factor ? x : Float32Type::get(x.getContext())};
  set(experts, runExperts(get(experts.getX()), routing,
                          get(experts.getGateUp()), get(experts.getDown()),
                          experts.getAct(), Rounding{x}, getRounding(experts)));
}

bool Interpreter::runLayerOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<RMSNormOp, LayerNormOp, LinearOp, ActivationOp, GatedMulOp,
            ResidualAddOp, QuantizeOp, DequantizeOp, DequantizeWeightOp,
            DynamicQuantizeOp, RotaryOp, CrossEntropyOp, MoEExpertsOp>(
          [&](auto layer) {
            runLayer(layer);
            return true;
          })
      .Default(false);
}

//===----------------------------------------------------------------------===//
// Fused ops
//===----------------------------------------------------------------------===//

/// Interprets one fused op under its `rounding(...)` contract.
namespace fuse {
template <typename OpTy>
class FusedOpInterpreter {
public:
  FusedOpInterpreter(Interpreter &parent, OpTy op)
      : parent(parent), op(op), contract(op.getRounding()),
        scales(op.getScalesAttr()), quant(getQuantOf(op)),
        inputType(getElement(op.getX())) {}

  Tensor get(Value value) const { return parent.get(value); }

  /// The rounding at a point, which is optional if `relaxed` lists it as
  /// skipped.
  Rounding at(RoundingPoint point) const {
    Rounding rounding{contract.getTypeOf(point, inputType)};
    rounding.isOptional = contract.skips(point);
    return rounding;
  }

  /// `[residual_add] [norm]`. Values that the op returns are always rounded.
  Tensor head() {
    Tensor x = get(op.getX());
    streamType = inputType;
    streamResult = stream = x;
    if (op.getResidual()) {
      Rounding rounding = at(RoundingPoint::Stream);
      streamType = rounding.type;
      stream = addTensors(x, get(op.getResidual()), rounding);
      rounding.isOptional = false;
      streamResult = addTensors(x, get(op.getResidual()), rounding);
    }
    NormAttr norm = op.getNormAttr();
    if (!norm)
      return stream;
    NormParts parts{norm.getKind(), norm.getEps().getValueAsDouble()};
    parts.offset = norm.getOffset();
    parts.cast = norm.getCast();
    parts.weight = parent.getIf(op.getNormWeight());
    parts.bias = parent.getIf(op.getNormBias());
    parts.inputType = streamType;
    parts.weightType = getElement(op.getNormWeight());
    Rounding rounding = at(RoundingPoint::Normed);
    Tensor normed = normalize(stream, parts, rounding);
    rounding.isOptional = false;
    normedResult = normalize(stream, parts, rounding);
    return normed;
  }

  bool isForm(QuantForm form) const {
    return scales && scales.getForm() == form;
  }
  double getScale(ScaleName name) const {
    return scales.lookup(name).getValueAsDouble();
  }

  /// Input of a linear: stored or real values.
  Tensor quantizeInput(const Tensor &x, ScaleKind name) {
    if (quant && quant.isPacked())
      return x;
    if (quant) {
      Tensor q;
      std::tie(q, measured) = quantizeDynamically(
          x, quant.getActivations(), quant, quant.getStorageType());
      return q;
    }
    if (!scales || isForm(QuantForm::WeightOnly))
      return x;
    Tensor q = quantize(x, getScale(name), nullptr, scales.getOrder(),
                        scales.getStorageType());
    if (!isForm(QuantForm::QDQ))
      return q;
    return dequantize(q, getScale(name), nullptr,
                      at(RoundingPoint::Dequantized));
  }

  Tensor linear(const Tensor &x, ScaleKind inputName, Value weight, Value bias,
                ScaleName weightName, Rounding rounding, bool isLast = false) {
    LinearParts parts;
    // A result in f32 is a part of a sum over ranks.
    parts.mayRoundParts = isLast && parent.mayRoundParts &&
                          contract.getMode() == RoundingMode::Relaxed &&
                          !rounding.type.isF32();
    parts.bias = parent.getIf(bias);
    parts.isBiasAfterRounding =
        bias && contract.getBiasPlace() == BiasPlace::AfterRounding;
    if (quant && quant.isPacked()) {
      SmallVector<const Tensor *> all;
      for (unsigned i = 0; i < quant.getNumScaleOperands(); ++i)
        all.push_back(&parent.get(op.getChannelScales()[numChannelScales++]));
      return multiplyWeights(x,
                             dequantizeWeight(parent.get(weight), all, quant,
                                              at(RoundingPoint::Dequantized)),
                             parts, rounding);
    }
    if (quant) {
      parts.quant = quant;
      parts.isInteger = quant.getStorageType().isInteger();
      if (isa<Float8E4M3FNType>(quant.getStorageType()))
        parts.accumulator = parent.accumulator;
      parts.dynamicScale = &measured;
      parts.channelScale =
          &parent.get(op.getChannelScales()[numChannelScales++]);
    }
    if (!scales)
      return multiplyWeights(x, parent.get(weight), parts, rounding);
    std::optional<double> scale;
    const Tensor *channelScale = nullptr;
    if (scales.isPerChannel(weightName))
      channelScale = &parent.get(op.getChannelScales()[numChannelScales++]);
    else
      scale = getScale(weightName);
    if (!isForm(QuantForm::Scaled))
      return multiplyWeights(x,
                             dequantize(parent.get(weight), scale, channelScale,
                                        at(RoundingPoint::Dequantized)),
                             parts, rounding);
    parts.isInteger = scales.getStorageType().isInteger();
    if (isa<Float8E4M3FNType>(scales.getStorageType()))
      parts.accumulator = parent.accumulator;
    parts.inputScale = getScale(inputName);
    parts.weightScale = scale;
    parts.channelScale = channelScale;
    return multiplyWeights(x, parent.get(weight), parts, rounding);
  }

  /// `[quantize] down [residual_add]` and the results of an MLP.
  void tail(const Tensor &hidden) {
    Value result = op.getOutputs()[0];
    bool isAdded = op.getAddStream() || op.getOutputResidual();
    Tensor y =
        linear(quantizeInput(hidden, ScaleKind::Hidden), ScaleKind::Hidden,
               op.getDown(), op.getDownBias(), ScaleKind::Down,
               isAdded ? at(RoundingPoint::Down) : getRounding(result),
               /*isLast=*/true);
    if (isAdded)
      y = addTensors(op.getAddStream() ? stream : get(op.getOutputResidual()),
                     y, getRounding(result));
    parent.set(result, y);
    setExtras(1);
  }

  void setExtras(size_t first) {
    for (RoundingPoint point : getPoints(op.getExtrasAttr()))
      parent.set(op.getOutputs()[first++],
                 point == RoundingPoint::Stream ? streamResult : normedResult);
  }

private:
  Interpreter &parent;
  OpTy op;
  RoundingAttr contract;
  StaticScalesAttr scales;
  QuantAttr quant;
  Type inputType, streamType;
  /// Scales of the last activation that was quantized dynamically.
  Tensor measured;
  Tensor stream, streamResult, normedResult;
  unsigned numChannelScales = 0;
};
} // namespace fuse

bool Interpreter::runFusedOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](GatedMLPOp mlp) {
        FusedOpInterpreter<GatedMLPOp> inner(*this, mlp);
        Tensor x = inner.quantizeInput(inner.head(), ScaleKind::Input);
        Tensor gate =
            inner.linear(x, ScaleKind::Input, mlp.getGate(), mlp.getGateBias(),
                         ScaleKind::Gate, inner.at(RoundingPoint::Gate));
        Tensor up =
            inner.linear(x, ScaleKind::Input, mlp.getUp(), mlp.getUpBias(),
                         ScaleKind::Up, inner.at(RoundingPoint::Up));
        Tensor act =
            activate(mlp.getActivation(), gate, inner.at(RoundingPoint::Act));
        inner.tail(multiplyTensors(act, up, inner.at(RoundingPoint::Product)));
        return true;
      })
      .Case([&](MLPOp mlp) {
        FusedOpInterpreter<MLPOp> inner(*this, mlp);
        Tensor x = inner.quantizeInput(inner.head(), ScaleKind::Input);
        Tensor up =
            inner.linear(x, ScaleKind::Input, mlp.getUp(), mlp.getUpBias(),
                         ScaleKind::Up, inner.at(RoundingPoint::Up));
        inner.tail(
            activate(mlp.getActivation(), up, inner.at(RoundingPoint::Act)));
        return true;
      })
      .Case([&](NormLinearOp fused) {
        FusedOpInterpreter<NormLinearOp> inner(*this, fused);
        Tensor x = inner.quantizeInput(inner.head(), ScaleKind::Input);
        unsigned numBiases = 0;
        for (auto [index, weight] : llvm::enumerate(fused.getWeights())) {
          Value bias, result = fused.getOutputs()[index];
          if (fused.getBiasMask()[index])
            bias = fused.getBiases()[numBiases++];
          set(result, inner.linear(x, ScaleKind::Input, weight, bias,
                                   ScaleName::weight(index),
                                   getRounding(result), /*isLast=*/true));
        }
        inner.setExtras(fused.getWeights().size());
        return true;
      })
      .Case([&](FusedLinearOp fused) {
        FusedOpInterpreter<FusedLinearOp> inner(*this, fused);
        Tensor x = inner.quantizeInput(inner.head(), ScaleKind::Input);
        Value result = fused.getOutputs()[0];
        Value residual = fused.getOutputResidual();
        Tensor y = inner.linear(x, ScaleKind::Input, fused.getWeight(),
                                fused.getBias(), ScaleName::weight(0),
                                residual ? inner.at(RoundingPoint::Down)
                                         : getRounding(result),
                                /*isLast=*/true);
        if (residual)
          y = addTensors(get(residual), y, getRounding(result));
        set(result, std::move(y));
        return true;
      })
      .Case([&](NormQuantizeOp fused) {
        FusedOpInterpreter<NormQuantizeOp> inner(*this, fused);
        set(fused.getOutputs()[0],
            inner.quantizeInput(inner.head(), ScaleKind::Input));
        inner.setExtras(1);
        return true;
      })
      .Default(false);
}

/// `act [gated_mul] quantize`, which has no head.
static std::vector<Tensor> runActQuantize(ActQuantizeOp op, const Tensor &x,
                                          const Tensor *factor) {
  RoundingAttr contract = op.getRounding();
  auto at = [&](RoundingPoint point, bool isResult) {
    Rounding rounding{contract.getTypeOf(point, getElement(op.getX()))};
    rounding.isOptional = !isResult && contract.skips(point);
    return rounding;
  };
  auto compute = [&](std::optional<RoundingPoint> result) {
    Tensor act = activate(op.getActivation(), x,
                          at(RoundingPoint::Act, result == RoundingPoint::Act));
    if (result == RoundingPoint::Act || !factor)
      return act;
    return multiplyTensors(
        act, *factor,
        at(RoundingPoint::Product, result == RoundingPoint::Product));
  };
  StaticScalesAttr scales = op.getScalesAttr();
  double scale = scales.lookup(ScaleKind::Hidden).getValueAsDouble();
  std::vector<Tensor> results = {quantize(compute(std::nullopt), scale, nullptr,
                                          scales.getOrder(),
                                          scales.getStorageType())};
  for (RoundingPoint extra : getPoints(op.getExtrasAttr()))
    results.push_back(compute(extra));
  return results;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

llvm::Error Interpreter::runOp(Operation *op) {
  if (runLayerOp(op) || runFusedOp(op))
    return llvm::Error::success();
  if (auto fused = dyn_cast<ActQuantizeOp>(op)) {
    std::vector<Tensor> results =
        runActQuantize(fused, get(fused.getX()), getIf(fused.getFactor()));
    for (auto [value, tensor] : llvm::zip_equal(fused.getOutputs(), results))
      set(value, std::move(tensor));
    return llvm::Error::success();
  }
  if (auto graph = dyn_cast<stage::GraphOp>(op)) {
    // The contract leaves the order of sums open, with or without K-slices.
    Block layers;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointToEnd(&layers);
    SmallVector<Value> results =
        stage::lowerGraph(graph, builder, stage::Slices::Join);
    for (Operation &layer : layers)
      if (llvm::Error error = runOp(&layer))
        return error;
    for (auto [result, value] : llvm::zip_equal(graph.getResults(), results))
      set(result, get(value));
    return llvm::Error::success();
  }
  if (auto group = dyn_cast<GroupOp>(op)) {
    Block &body = group.getBody().front();
    for (auto [argument, input] :
         llvm::zip_equal(body.getArguments(), group.getInputs()))
      set(argument, get(input));
    if (llvm::Error error = runBlock(body))
      return error;
    for (auto [value, result] : llvm::zip_equal(
             group.getOutputs(), body.getTerminator()->getOperands()))
      set(value, get(result));
    return llvm::Error::success();
  }
  if (auto region = dyn_cast<scf::ExecuteRegionOp>(op);
      region && op->getNumResults() == 0)
    return runBlock(region.getRegion().front());
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Tensor scalar;
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      scalar.values.push_back(number.getValueAsDouble());
    else if (auto number = dyn_cast<IntegerAttr>(constant.getValue()))
      scalar.values.push_back(double(number.getValue().getBoolValue()));
    set(constant, std::move(scalar));
    return llvm::Error::success();
  }
  if (auto negation = dyn_cast<arith::NegFOp>(op)) {
    Tensor result = get(negation.getOperand());
    for (Interval &value : result.values)
      if (!value.isAnything)
        value = Interval(-value.hi, -value.lo);
    set(negation, std::move(result));
    return llvm::Error::success();
  }
  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    set(op->getResult(0),
        getRounding(op->getResult(0))(get(op->getOperand(0))));
    return llvm::Error::success();
  }
  // The output operand of a transpose only defines the shape, and sizes come
  // from the tensors.
  if (isa<tensor::EmptyOp, tensor::DimOp>(op))
    return llvm::Error::success();
  if (auto view = dyn_cast<tensor::ExtractSliceOp>(op)) {
    set(view, takeView(get(view.getSource()), view.getStaticOffsets(),
                       view.getStaticSizes(), view.getStaticStrides()));
    return llvm::Error::success();
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    SmallVector<Tensor> parts(llvm::map_range(
        concat.getInputs(), [&](Value part) { return get(part); }));
    set(concat, concatenate(parts, concat.getDim()));
    return llvm::Error::success();
  }
  if (auto transposed = dyn_cast<linalg::TransposeOp>(op)) {
    set(transposed->getResult(0),
        transpose(get(transposed.getInput()), transposed.getPermutation()));
    return llvm::Error::success();
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    bool condition = get(select.getCondition())[0].lo != 0.0;
    set(select,
        get(condition ? select.getTrueValue() : select.getFalseValue()));
    return llvm::Error::success();
  }
  return llvm::createStringError("the interpreter does not know '" +
                                 op->getName().getStringRef() + "'");
}

llvm::Error Interpreter::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (llvm::Error error = runOp(&op))
      return error;
  return llvm::Error::success();
}

llvm::Expected<std::vector<Tensor>>
Interpreter::run(func::FuncOp function, ArrayRef<HostTensor> inputs) {
  tensors.clear();
  Block &body = function.front();
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), inputs)) {
    Tensor tensor;
    tensor.shape.assign(input.getShape().begin(), input.getShape().end());
    for (int64_t i = 0; i < input.getNumElements(); ++i)
      tensor.values.push_back(input.get(i));
    set(argument, std::move(tensor));
  }
  if (llvm::Error error = runBlock(body))
    return std::move(error);
  std::vector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(get(value));
  return results;
}

std::optional<int64_t> fuse::findOutside(const Tensor &expected,
                                         const HostTensor &actual) {
  for (int64_t i = 0; i < actual.getNumElements(); ++i)
    if (!expected[i].contains(actual.get(i)))
      return i;
  return std::nullopt;
}
