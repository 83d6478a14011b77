//===- FuseDecompose.cpp - Decompositions of fused ops --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds the unfused chain of each fused op. This is the only definition of
// what a fused op computes.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fuse;

Location fuse::getFusedLocation(MLIRContext *context,
                                ArrayRef<Location> members) {
  // FusedLoc drops repeated locations; the metadata keeps one per member. The
  // overload with the context as first argument would keep them, but they would
  // be lost when the location is printed and parsed.
  SmallVector<Attribute> all(members.begin(), members.end());
  return FusedLoc::get(members, ArrayAttr::get(context, all), context);
}

/// The location of member `index` of a chain of any length.
static Location getMemberLocation(Location fused, unsigned index) {
  // The inliner wraps the location of the kernel.
  if (auto inlined = dyn_cast<CallSiteLoc>(fused))
    return CallSiteLoc::get(getMemberLocation(inlined.getCallee(), index),
                            inlined.getCaller());
  auto loc = dyn_cast<FusedLoc>(fused);
  auto all = loc ? dyn_cast_or_null<ArrayAttr>(loc.getMetadata()) : ArrayAttr();
  if (!all || index >= all.size())
    return fused;
  auto member = dyn_cast<LocationAttr>(all[index]);
  return member ? Location(member) : fused;
}

namespace {

/// Appends members to a chain and restores their locations and discardable
/// attributes.
class ChainBuilder {
public:
  ChainBuilder(FusedOpInterface op, OpBuilder &builder)
      : op(op), builder(builder), provenance(op.getProvenanceAttr()) {}

  template <typename OpTy, typename... Args>
  Value add(ChainMember name, Args &&...args) {
    unsigned index = chain.members.size();
    auto member = OpTy::create(builder, getMemberLocation(op.getLoc(), index),
                               std::forward<Args>(args)...);
    if (provenance && index < provenance.getAttributes().size())
      member->setDiscardableAttrs(provenance.getAttributes()[index]);
    chain.members.push_back(member);
    chain.names.push_back(name);
    return member->getResult(0);
  }

  /// Adds a binary member, with its operands in the original order.
  template <typename OpTy>
  Value addBinary(ChainMember name, Type type, Value lhs, Value rhs) {
    if (provenance && provenance.isCommuted(name))
      std::swap(lhs, rhs);
    return add<OpTy>(name, type, lhs, rhs);
  }

  void addResult(Value value) { chain.results.push_back(value); }
  Decomposition take() { return std::move(chain); }

private:
  FusedOpInterface op;
  OpBuilder &builder;
  ProvenanceAttr provenance;
  Decomposition chain;
};

/// Builder for the families with linear members.
template <typename OpTy>
class FamilyBuilder : public ChainBuilder {
public:
  FamilyBuilder(OpTy op, OpBuilder &builder)
      : ChainBuilder(cast<FusedOpInterface>(op.getOperation()), builder),
        op(op), builder(builder), rounding(op.getRounding()),
        scales(op.getScalesAttr()), quant(getQuantOf(op)),
        defaultType(op.getX().getType().getElementType()) {}

  /// The type `like` with the element type of a rounding point.
  Type at(RoundingPoint point, Value like) {
    return withElementType(like.getType(),
                           rounding.getTypeOf(point, defaultType));
  }

  /// Adds `[residual_add] [norm]` and keeps both for results and later members.
  Value addHead(Value x) {
    stream = x;
    if (Value residual = op.getResidual())
      stream = this->template add<ResidualAddOp>(
          ChainMember::Residual, at(RoundingPoint::Stream, x), x, residual);
    NormAttr norm = op.getNormAttr();
    if (!norm)
      return stream;
    Type type = at(RoundingPoint::Normed, stream);
    if (norm.getKind() == NormKind::RMS)
      normed = this->template add<RMSNormOp>(
          ChainMember::Norm, type, stream, op.getNormWeight(), norm.getEps(),
          builder.getI64IntegerAttr(norm.getOffset()),
          NormCastAttr::get(builder.getContext(), norm.getCast()));
    else
      normed = this->template add<LayerNormOp>(ChainMember::Norm, type, stream,
                                               op.getNormWeight(),
                                               op.getNormBias(), norm.getEps());
    return normed;
  }

  /// Quantizes a value if the op has scales of activations.
  Value addQuantize(ChainMember name, ScaleKind scale, Value x) {
    if (quant && quant.isPacked())
      return x;
    if (quant) {
      auto type = cast<RankedTensorType>(x.getType());
      Value q = this->template add<DynamicQuantizeOp>(
          name, withElementType(type, quant.getStorageType()),
          RankedTensorType::get(quant.getInputScaleShape(type.getShape()),
                                builder.getF32Type()),
          ScaleScopeAttr::get(builder.getContext(), quant.getActivations()), x,
          quant);
      measured = q.getDefiningOp<DynamicQuantizeOp>().getScale();
      return q;
    }
    if (!scales || isWeightOnly())
      return x;
    return this->template add<QuantizeOp>(
        name, withElementType(x.getType(), scales.getStorageType()), x, Value(),
        scales.lookup(scale),
        QuantOrderAttr::get(builder.getContext(), scales.getOrder()));
  }

  /// Dequantizes an activation in the qdq form.
  Value addDequantize(ChainMember name, ScaleKind scale, Value q) {
    if (!isQDQ())
      return q;
    return this->template add<DequantizeOp>(name,
                                            at(RoundingPoint::Dequantized, q),
                                            q, Value(), scales.lookup(scale));
  }

  /// Adds a linear member, after the dequantize op of its weight, if any.
  Value addLinear(ChainMember dequantizeName, ChainMember name,
                  ScaleKind inputScale, ScaleName weightScale, Type type,
                  Value x, Value weight, Value bias) {
    FloatAttr scale;
    Value channelScale;
    auto biasPlace = BiasPlaceAttr::get(builder.getContext(),
                                        bias ? rounding.getBiasPlace()
                                             : BiasPlace::BeforeRounding);
    if (quant && quant.isPacked()) {
      ValueRange scales = op.getChannelScales().slice(
          nextChannelScale, quant.getNumScaleOperands());
      nextChannelScale += scales.size();
      auto packed = cast<RankedTensorType>(weight.getType());
      auto real = RankedTensorType::get(
          {packed.getShape()[0], 2 * packed.getShape()[1]},
          rounding.getTypeOf(RoundingPoint::Dequantized, defaultType));
      weight = this->template add<DequantizeWeightOp>(dequantizeName, real,
                                                      weight, scales, quant);
      return this->template add<LinearOp>(name, type, x, weight, bias, Value(),
                                          Value(), FloatAttr(), FloatAttr(),
                                          biasPlace);
    }
    if (quant)
      return this->template add<LinearOp>(
          name, type, x, weight, bias,
          op.getChannelScales()[nextChannelScale++], measured, FloatAttr(),
          FloatAttr(), biasPlace, quant);
    if (scales) {
      scale = scales.lookup(weightScale);
      if (!scale)
        channelScale = op.getChannelScales()[nextChannelScale++];
    }
    if (isQDQ() || isWeightOnly()) {
      weight = this->template add<DequantizeOp>(
          dequantizeName, at(RoundingPoint::Dequantized, weight), weight,
          channelScale, scale);
      return this->template add<LinearOp>(name, type, x, weight, bias, Value(),
                                          Value(), FloatAttr(), FloatAttr(),
                                          biasPlace);
    }
    FloatAttr xScale = scales ? scales.lookup(inputScale) : FloatAttr();
    return this->template add<LinearOp>(name, type, x, weight, bias,
                                        channelScale, Value(), xScale, scale,
                                        biasPlace);
  }

  /// Type of a linear's result: the element type of a rounding point and the
  /// feature size of the weight.
  Type linearType(RoundingPoint point, Value x, Value weight) {
    SmallVector<int64_t> shape(cast<RankedTensorType>(x.getType()).getShape());
    shape.back() = cast<RankedTensorType>(weight.getType()).getShape()[0];
    return RankedTensorType::get(shape, rounding.getTypeOf(point, defaultType));
  }

  bool isQDQ() { return scales && scales.getForm() == QuantForm::QDQ; }
  bool isWeightOnly() {
    return scales && scales.getForm() == QuantForm::WeightOnly;
  }

  Value stream, normed;
  /// Scales of the last activation that a member quantized dynamically.
  Value measured;

protected:
  OpTy op;
  OpBuilder &builder;
  RoundingAttr rounding;
  StaticScalesAttr scales;
  QuantAttr quant;
  Type defaultType;
  unsigned nextChannelScale = 0;
};

} // namespace

/// Adds the end of an MLP, `[quantize] down [residual_add]`, and the results.
template <typename OpTy>
static void addTail(FamilyBuilder<OpTy> &chain, OpTy op, Value hidden) {
  Value q =
      chain.addQuantize(ChainMember::QuantizeHidden, ScaleKind::Hidden, hidden);
  q = chain.addDequantize(ChainMember::DequantizeHidden, ScaleKind::Hidden, q);
  Value other = op.getAddStream() ? chain.stream : op.getOutputResidual();
  Type resultType = op.getOutputs()[0].getType();
  Type downType =
      other ? chain.linearType(RoundingPoint::Down, hidden, op.getDown())
            : resultType;
  Value y = chain.addLinear(ChainMember::DequantizeDown, ChainMember::Down,
                            ScaleKind::Hidden, ScaleKind::Down, downType, q,
                            op.getDown(), op.getDownBias());
  if (other)
    y = chain.template addBinary<ResidualAddOp>(ChainMember::ThenAdd,
                                                resultType, other, y);
  chain.addResult(y);
  // The stream is the only intermediate that an MLP returns.
  if (op.getExtras())
    chain.addResult(chain.stream);
}

Decomposition GatedMLPOp::decompose(OpBuilder &builder) {
  FamilyBuilder<GatedMLPOp> chain(*this, builder);
  Value x = chain.addHead(getX());
  x = chain.addQuantize(ChainMember::QuantizeInput, ScaleKind::Input, x);
  x = chain.addDequantize(ChainMember::DequantizeInput, ScaleKind::Input, x);
  Value gate = chain.addLinear(
      ChainMember::DequantizeGate, ChainMember::Gate, ScaleKind::Input,
      ScaleKind::Gate, chain.linearType(RoundingPoint::Gate, x, getGate()), x,
      getGate(), getGateBias());
  Value act = chain.add<ActivationOp>(ChainMember::Act,
                                      chain.at(RoundingPoint::Act, gate),
                                      getActivationAttr(), gate);
  Value up = chain.addLinear(ChainMember::DequantizeUp, ChainMember::Up,
                             ScaleKind::Input, ScaleKind::Up,
                             chain.linearType(RoundingPoint::Up, x, getUp()), x,
                             getUp(), getUpBias());
  Value product = chain.addBinary<GatedMulOp>(
      ChainMember::Product, chain.at(RoundingPoint::Product, act), act, up);
  addTail(chain, *this, product);
  return chain.take();
}

Decomposition MLPOp::decompose(OpBuilder &builder) {
  FamilyBuilder<MLPOp> chain(*this, builder);
  Value x = chain.addHead(getX());
  x = chain.addQuantize(ChainMember::QuantizeInput, ScaleKind::Input, x);
  x = chain.addDequantize(ChainMember::DequantizeInput, ScaleKind::Input, x);
  Value up = chain.addLinear(ChainMember::DequantizeUp, ChainMember::Up,
                             ScaleKind::Input, ScaleKind::Up,
                             chain.linearType(RoundingPoint::Up, x, getUp()), x,
                             getUp(), getUpBias());
  Value act = chain.add<ActivationOp>(ChainMember::Act,
                                      chain.at(RoundingPoint::Act, up),
                                      getActivationAttr(), up);
  addTail(chain, *this, act);
  return chain.take();
}

/// Appends the intermediates in `also` to the results.
template <typename OpTy>
static void addHeadExtras(FamilyBuilder<OpTy> &chain, OpTy op) {
  for (RoundingPoint extra : getPoints(op.getExtrasAttr()))
    chain.addResult(extra == RoundingPoint::Stream ? chain.stream
                                                   : chain.normed);
}

Decomposition NormLinearOp::decompose(OpBuilder &builder) {
  FamilyBuilder<NormLinearOp> chain(*this, builder);
  Value x = chain.addHead(getX());
  x = chain.addQuantize(ChainMember::QuantizeInput, ScaleKind::Input, x);
  x = chain.addDequantize(ChainMember::DequantizeInput, ScaleKind::Input, x);
  auto bias = getBiases().begin();
  for (auto [index, weight] : llvm::enumerate(getWeights())) {
    Value linearBias = getBiasMask()[index] ? *bias++ : Value();
    chain.addResult(
        chain.addLinear(ChainMember::DequantizeWeight, ChainMember::Linear,
                        ScaleKind::Input, ScaleName::weight(index),
                        getOutputs()[index].getType(), x, weight, linearBias));
  }
  addHeadExtras(chain, *this);
  return chain.take();
}

Decomposition FusedLinearOp::decompose(OpBuilder &builder) {
  FamilyBuilder<FusedLinearOp> chain(*this, builder);
  Value x =
      chain.addQuantize(ChainMember::QuantizeInput, ScaleKind::Input, getX());
  x = chain.addDequantize(ChainMember::DequantizeInput, ScaleKind::Input, x);
  Type resultType = getOutputs()[0].getType();
  Value other = getOutputResidual();
  Value y = chain.addLinear(
      ChainMember::DequantizeWeight, ChainMember::Linear, ScaleKind::Input,
      ScaleName::weight(0),
      other ? chain.linearType(RoundingPoint::Down, x, getWeight())
            : resultType,
      x, getWeight(), getBias());
  if (other)
    y = chain.addBinary<ResidualAddOp>(ChainMember::ThenAdd, resultType, other,
                                       y);
  chain.addResult(y);
  return chain.take();
}

Decomposition NormQuantizeOp::decompose(OpBuilder &builder) {
  FamilyBuilder<NormQuantizeOp> chain(*this, builder);
  Value x = chain.addHead(getX());
  chain.addResult(
      chain.addQuantize(ChainMember::QuantizeInput, ScaleKind::Input, x));
  addHeadExtras(chain, *this);
  return chain.take();
}

Decomposition ActQuantizeOp::decompose(OpBuilder &builder) {
  ChainBuilder chain(*this, builder);
  Type element = getX().getType().getElementType();
  auto at = [&](RoundingPoint point) {
    return withElementType(getX().getType(),
                           getRounding().getTypeOf(point, element));
  };
  Value act = chain.add<ActivationOp>(ChainMember::Act, at(RoundingPoint::Act),
                                      getActivationAttr(), getX());
  Value value = act;
  if (Value factor = getFactor())
    value = chain.addBinary<GatedMulOp>(
        ChainMember::Product, at(RoundingPoint::Product), act, factor);
  StaticScalesAttr scales = getScalesAttr();
  chain.addResult(chain.add<QuantizeOp>(
      ChainMember::QuantizeHidden,
      withElementType(value.getType(), scales.getStorageType()), value, Value(),
      scales.lookup(ScaleKind::Hidden),
      QuantOrderAttr::get(getContext(), scales.getOrder())));
  for (RoundingPoint extra : getPoints(getExtrasAttr()))
    chain.addResult(extra == RoundingPoint::Act ? act : value);
  return chain.take();
}

Decomposition GroupOp::decompose(OpBuilder &builder) {
  Decomposition chain;
  IRMapping mapping;
  Block &body = getBody().front();
  mapping.map(body.getArguments(), getInputs());
  for (Operation &member : body.without_terminator()) {
    chain.members.push_back(builder.clone(member, mapping));
    chain.names.push_back(ChainMember::Grouped);
  }
  for (Value value : body.getTerminator()->getOperands())
    chain.results.push_back(mapping.lookupOrDefault(value));
  return chain;
}
