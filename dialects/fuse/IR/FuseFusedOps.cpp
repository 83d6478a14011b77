//===- FuseFusedOps.cpp - Verifiers and syntax of fused ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseClauses.h"
#include "fuse/IR/FuseShapes.h"
#include "fuse/IR/FuseVerify.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "fuse/IR/FuseOps.cpp.inc"

/// The type of an optional operand, or null.
static RankedTensorType typeOf(Value value) {
  return value ? cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

namespace {

/// Verifies the members of a fused op in order of the chain, each by the rule
/// of its layer op. Errors name the member.
template <typename OpTy>
class FamilyVerifier {
public:
  FamilyVerifier(OpTy op, ArrayRef<RoundingPoint> points)
      : op(op), rounding(op.getRounding()), scales(op.getScalesAttr()),
        quant(getQuantOf(op)),
        defaultType(op.getX().getType().getElementType()), points(points) {}

  /// Starts an error of member `name`.
  auto in(StringRef name) {
    return [this, name]() -> InFlightDiagnostic {
      return op.emitOpError() << "member '" << name << "': ";
    };
  }

  Type typeAt(RoundingPoint point) {
    used.push_back(point);
    return rounding.getTypeOf(point, defaultType);
  }

  /// Verifies that the op has all rounding points and extras in its contract.
  LogicalResult verifyContract(ArrayRef<RoundingPoint> allowedExtras,
                               unsigned numOwnResults) {
    auto list = [](InFlightDiagnostic &diag, ArrayRef<RoundingPoint> points) {
      llvm::interleaveComma(points, diag, [&](RoundingPoint point) {
        diag << stringifyRoundingPoint(point);
      });
    };
    auto verifyPoint = [&](RoundingPoint point) -> LogicalResult {
      if (llvm::is_contained(points, point))
        return success();
      InFlightDiagnostic diag = op.emitOpError();
      diag << "has no rounding point '" << stringifyRoundingPoint(point)
           << "'; it has ";
      list(diag, points);
      return diag;
    };
    for (RoundingPoint point : rounding.getSkip())
      if (failed(verifyPoint(point)))
        return failure();
    for (auto [point, type] : rounding.getTypes())
      if (failed(verifyPoint(point)))
        return failure();
    if (op.getExtrasAttr() && op.getExtrasAttr().empty())
      return op.emitOpError("names no result in 'also'");
    SmallVector<RoundingPoint> extras = getPoints(op.getExtrasAttr());
    for (auto [i, extra] : llvm::enumerate(extras)) {
      if (!llvm::is_contained(allowedExtras, extra)) {
        InFlightDiagnostic diag = op.emitOpError();
        diag << "cannot return '" << stringifyRoundingPoint(extra)
             << "'; it returns ";
        list(diag, allowedExtras);
        return diag;
      }
      if (llvm::is_contained(ArrayRef(extras).take_front(i), extra))
        return op.emitOpError()
               << "returns '" << stringifyRoundingPoint(extra) << "' twice";
    }
    unsigned expected = numOwnResults + extras.size();
    if (op->getNumResults() != expected)
      return op.emitOpError()
             << "expected " << expected << " results (" << numOwnResults
             << " and those of 'also'), got " << op->getNumResults();
    return success();
  }

  /// Records the next member of the decomposition.
  template <typename MemberTy>
  void member(ChainMember name) {
    members.push_back({name, MemberTy::getAttributeNames()});
  }

  /// Verifies that roundings and provenance refer to existing members. Called
  /// after all members are recorded.
  LogicalResult verifyMembers() {
    for (auto [point, type] : rounding.getTypes())
      if (!llvm::is_contained(used, point))
        return op.emitOpError()
               << "has a type for rounding point '"
               << stringifyRoundingPoint(point) << "', where it has no member";
    if (rounding.getBiasPlace() != BiasPlace::BeforeRounding && !hasBias)
      return op.emitOpError("has no bias to add after rounding");
    ProvenanceAttr provenance = op.getProvenanceAttr();
    if (!provenance)
      return success();
    for (auto [what, size] :
         {std::pair<StringRef, size_t>{"places", provenance.getPlaces().size()},
          {"attributes", provenance.getAttributes().size()}})
      if (size != 0 && size != members.size())
        return op.emitOpError() << "provenance has " << size << " " << what
                                << " for " << members.size() << " members";
    for (ChainMember name : provenance.getCommuted())
      if ((name != ChainMember::Product && name != ChainMember::ThenAdd) ||
          !llvm::is_contained(llvm::make_first_range(members), name))
        return op.emitOpError()
               << "has no member '" << stringifyChainMember(name)
               << "' with operands to commute";
    // Discardable attributes of a member must not shadow its inherent ones.
    for (auto [attributes, member] :
         llvm::zip(provenance.getAttributes(), members))
      for (NamedAttribute attribute : attributes)
        if (llvm::is_contained(member.second, attribute.getName().getValue()))
          return in(stringifyChainMember(member.first))()
                 << "attribute " << attribute.getName()
                 << " in provenance is not a discardable one";
    return success();
  }

  /// Verifies the scale of an op without a linear: only that of its result.
  LogicalResult verifyOnlyScale(ScaleKind name) {
    if (scales && scales.getForm() != QuantForm::Scaled)
      return op.emitOpError("has no linear, so 'scales' has no form");
    return verifyScales({name}, {name}, true);
  }

  /// Verifies that quantized operands have exactly the scales in `allNames`,
  /// and others none. Without quantized activations, their scales are absent.
  LogicalResult verifyScales(ArrayRef<ScaleName> allNames,
                             ArrayRef<ScaleName> activationNames,
                             bool quantized) {
    SmallVector<ScaleName> names(allNames);
    if (isWeightOnly())
      llvm::erase_if(names, [&](ScaleName name) {
        return llvm::is_contained(activationNames, name);
      });
    if (quant) {
      if (scales)
        return op.emitOpError("has both 'scales' and 'quant'; expected one of "
                              "them");
      if (!quantized)
        return op.emitOpError("has 'quant' but no quantized member");
      numWeights = allNames.size() - activationNames.size();
      if (quant.isPacked())
        return success();
      // Kernels compute tokens without those of others.
      if (quant.getActivations() == ScaleScope::PerTensor)
        return op.emitOpError("must measure activations per_token or "
                              "per_group, got per_tensor");
      return success();
    }
    if (!scales) {
      if (quantized)
        return op.emitOpError("with quantized members needs 'scales' or "
                              "'quant'");
      return success();
    }
    if (!quantized)
      return op.emitOpError("has 'scales' but no quantized member");
    auto fail = [&](StringRef what, ScaleName name) {
      InFlightDiagnostic diag = op.emitOpError();
      diag << what << " scale '" << name.toText() << "'; expected ";
      llvm::interleaveComma(names, diag,
                            [&](ScaleName name) { diag << name.toText(); });
      return diag;
    };
    for (auto [name, value] : scales.getScales())
      if (!llvm::is_contained(names, name))
        return fail("unknown", name);
    for (ScaleName name : names)
      if (!scales.contains(name))
        return fail("missing", name);
    for (ScaleName name : activationNames)
      if (!isWeightOnly() && scales.isPerChannel(name))
        return op.emitOpError()
               << "scale '" << name.toText()
               << "' of an activation must be a number, not per_channel";
    return success();
  }

  /// Verifies that `channel_scales` has one operand per scale given per
  /// channel.
  LogicalResult verifyChannelScaleCount(OperandRange channelScales) {
    unsigned perWeight = quant ? quant.getNumScaleOperands() : 1;
    unsigned expected = quant    ? numWeights * perWeight
                        : scales ? scales.getNumPerChannel()
                                 : 0;
    if (channelScales.size() != expected)
      return op.emitOpError()
             << "expected " << expected << " 'channel_scales', "
             << (perWeight == 1 ? "one" : Twine(perWeight).str()) << " per "
             << (quant ? "weight" : "scale given per_channel") << ", got "
             << channelScales.size();
    if (quant && quant.isPacked())
      return success();
    for (Value scale : channelScales)
      if (!getElementTypeOrSelf(scale.getType()).isF32())
        return op.emitOpError() << "'channel_scales' must be in f32 without "
                                   "weights = group, got "
                                << scale.getType();
    return success();
  }

  /// Verifies `[residual_add] [norm]` and sets the current type.
  LogicalResult verifyHead() {
    stream = op.getX().getType();
    if (failed(verifyTensor(in("input"), "x", stream)))
      return failure();
    if (RankedTensorType residual = typeOf(op.getResidual())) {
      if (failed(verifySameShape(in("residual"), "x", stream, "residual",
                                 residual)))
        return failure();
      member<ResidualAddOp>(ChainMember::Residual);
      stream = withElementType(stream, typeAt(RoundingPoint::Stream));
    }
    current = stream;
    NormAttr norm = op.getNormAttr();
    if (!norm) {
      if (op.getNormWeight() || op.getNormBias())
        return op.emitOpError("has the weight of a norm but no norm");
      return success();
    }
    if (op.getNormBias() && !op.getNormWeight())
      return op.emitOpError("has the bias of a norm but no weight");
    if (norm.getKind() == NormKind::RMS)
      member<RMSNormOp>(ChainMember::Norm);
    else
      member<LayerNormOp>(ChainMember::Norm);
    current = withElementType(stream, typeAt(RoundingPoint::Normed));
    return verifyNorm(in("norm"), norm.getKind(), stream,
                      typeOf(op.getNormWeight()), typeOf(op.getNormBias()),
                      norm.getEps(), norm.getOffset(), current);
  }

  bool isQDQ() { return scales && scales.getForm() == QuantForm::QDQ; }
  bool isWeightOnly() {
    return scales && scales.getForm() == QuantForm::WeightOnly;
  }

  /// Adds a quantize member if the op has scales of activations, and in the qdq
  /// form a dequantize member.
  void quantize(ChainMember quantizeName, ChainMember dequantizeName) {
    if (quant && quant.isPacked())
      return;
    if (quant) {
      member<DynamicQuantizeOp>(quantizeName);
      current = withElementType(current, quant.getStorageType());
      return;
    }
    if (!scales || isWeightOnly())
      return;
    member<QuantizeOp>(quantizeName);
    if (isQDQ())
      member<DequantizeOp>(dequantizeName);
    current =
        withElementType(current, isQDQ() ? typeAt(RoundingPoint::Dequantized)
                                         : scales.getStorageType());
  }

  /// Verifies a linear member from the current type to one with element type
  /// `resultElement`, and the dequantize op of its weight, if any.
  LogicalResult verifyLinearMember(ChainMember dequantizeName, ChainMember role,
                                   Value weight, Value bias, Type resultElement,
                                   ValueRange channelScales,
                                   RankedTensorType &result) {
    StringRef name = stringifyChainMember(role);
    auto weightType = cast<RankedTensorType>(weight.getType());
    if (weightType.getRank() != 2)
      return in(name)() << "'weight' must be a static [out, in] matrix, got "
                        << weightType;
    SmallVector<int64_t> shape(current.getShape());
    shape.back() = weightType.getShape()[0];
    result = RankedTensorType::get(shape, resultElement);
    RankedTensorType stored = weightType;
    hasBias |= bool(bias);
    if (quant && quant.isPacked()) {
      member<DequantizeWeightOp>(dequantizeName);
      if (failed(verifyPackedWeight(
              in(name), quant, stored, channelScales.getTypes(),
              typeAt(RoundingPoint::Dequantized), weightType)))
        return failure();
      member<LinearOp>(role);
      return verifyLinear(in(name), {current, weightType, typeOf(bias),
                                     RankedTensorType(), result, QuantAttr()});
    }
    Value channelScale =
        channelScales.empty() ? Value() : channelScales.front();
    if (isWeightOnly() && stored.getElementType() != scales.getStorageType())
      return in(name)() << "'weight' must be stored as "
                        << scales.getStorageType() << ", got " << stored;
    if (isQDQ() || isWeightOnly()) {
      member<DequantizeOp>(dequantizeName);
      weightType =
          withElementType(weightType, typeAt(RoundingPoint::Dequantized));
    }
    member<LinearOp>(role);
    // The input is verified first, because a wrong width has a better message
    // as a width than as groups.
    if (failed(verifyLinear(in(name), {current, weightType, typeOf(bias),
                                       typeOf(channelScale), result, quant})))
      return failure();
    if (quant && failed(verifyDynamicInput(in(name), quant, current,
                                           current.getElementType())))
      return failure();
    if (scales && !isQuantized(stored.getElementType()))
      return in(name)() << "'weight' must be quantized like its input, got "
                        << stored;
    return success();
  }

  OpTy op;
  RoundingAttr rounding;
  StaticScalesAttr scales;
  QuantAttr quant;
  /// Number of weights of an op with `quant`.
  unsigned numWeights = 0;
  Type defaultType;
  ArrayRef<RoundingPoint> points;
  /// Name and inherent attributes of each member.
  SmallVector<std::pair<ChainMember, ArrayRef<StringRef>>> members;
  /// Rounding points of the members.
  SmallVector<RoundingPoint> used;
  RankedTensorType stream, current;
  bool hasBias = false;
};

/// Assigns the operands of `channel_scales` to members, in their order.
class ChannelScales {
public:
  ChannelScales(StaticScalesAttr scales, QuantAttr quant, OperandRange operands)
      : scales(scales), quant(quant), operands(operands) {}
  OperandRange take(ScaleName name) {
    unsigned number = quant ? quant.getNumScaleOperands()
                            : scales && scales.isPerChannel(name);
    OperandRange taken = operands.take_front(number);
    operands = operands.drop_front(number);
    return taken;
  }

private:
  StaticScalesAttr scales;
  QuantAttr quant;
  OperandRange operands;
};

} // namespace

static bool hasQuantizedElements(Value value) {
  return isQuantized(getElementTypeOrSelf(value.getType()));
}

/// Verifies `[quantize] down [residual_add]` of an MLP. The current type is
/// that of the hidden value.
template <typename OpTy>
static LogicalResult verifyTail(FamilyVerifier<OpTy> &chain, OpTy op,
                                ChannelScales &channelScales) {
  if (op.getAddStream() && op.getOutputResidual())
    return op.emitOpError("has both 'then_add' and 'add_stream'");
  if ((op.getAddStream() || op.getExtras()) && !op.getResidual())
    return op.emitOpError("has no residual, so its stream is its input");
  bool adds = op.getAddStream() || op.getOutputResidual();
  auto outputType = cast<RankedTensorType>(op.getOutputs()[0].getType());
  chain.quantize(ChainMember::QuantizeHidden, ChainMember::DequantizeHidden);
  RankedTensorType down;
  if (failed(chain.verifyLinearMember(
          ChainMember::DequantizeDown, ChainMember::Down, op.getDown(),
          op.getDownBias(),
          adds ? chain.typeAt(RoundingPoint::Down)
               : outputType.getElementType(),
          channelScales.take(ScaleKind::Down), down)))
    return failure();
  if (op.getAddStream() &&
      failed(verifySameShape(chain.in("then_add"), "down", down, "stream",
                             chain.stream)))
    return failure();
  if (op.getOutputResidual() &&
      failed(verifySameShape(chain.in("then_add"), "down", down, "residual",
                             typeOf(op.getOutputResidual()))))
    return failure();
  if (failed(verifySameShape(chain.in("output"), "down", down, "result",
                             outputType)))
    return failure();
  if (op.getExtras() && op.getOutputs()[1].getType() != chain.stream)
    return op.emitOpError() << "result 'stream' must be " << chain.stream
                            << ", got " << op.getOutputs()[1].getType();
  if (adds)
    chain.template member<ResidualAddOp>(ChainMember::ThenAdd);
  return chain.verifyMembers();
}

LogicalResult GatedMLPOp::verify() {
  static constexpr RoundingPoint points[] = {
      RoundingPoint::Stream,  RoundingPoint::Normed, RoundingPoint::Dequantized,
      RoundingPoint::Gate,    RoundingPoint::Up,     RoundingPoint::Act,
      RoundingPoint::Product, RoundingPoint::Down};
  if (failed(verifyRequired(*this, {{odsIndex_x, "x"},
                                    {odsIndex_gate, "gate"},
                                    {odsIndex_up, "up"},
                                    {odsIndex_down, "down"}})))
    return failure();
  FamilyVerifier<GatedMLPOp> chain(*this, points);
  bool quantized = hasQuantizedElements(getGate()) ||
                   hasQuantizedElements(getUp()) ||
                   hasQuantizedElements(getDown());
  if (failed(chain.verifyContract({RoundingPoint::Stream}, 1)) ||
      failed(chain.verifyScales(
          {ScaleKind::Input, ScaleKind::Gate, ScaleKind::Up, ScaleKind::Hidden,
           ScaleKind::Down},
          {ScaleKind::Input, ScaleKind::Hidden}, quantized)) ||
      failed(chain.verifyChannelScaleCount(getChannelScales())) ||
      failed(chain.verifyHead()))
    return failure();
  ChannelScales channelScales(getScalesAttr(), getQuantAttr(),
                              getChannelScales());
  chain.quantize(ChainMember::QuantizeInput, ChainMember::DequantizeInput);
  RankedTensorType gate, up;
  if (failed(chain.verifyLinearMember(
          ChainMember::DequantizeGate, ChainMember::Gate, getGate(),
          getGateBias(), chain.typeAt(RoundingPoint::Gate),
          channelScales.take(ScaleKind::Gate), gate)))
    return failure();
  chain.member<ActivationOp>(ChainMember::Act);
  chain.typeAt(RoundingPoint::Act);
  if (failed(chain.verifyLinearMember(ChainMember::DequantizeUp,
                                      ChainMember::Up, getUp(), getUpBias(),
                                      chain.typeAt(RoundingPoint::Up),
                                      channelScales.take(ScaleKind::Up), up)) ||
      failed(verifySameShape(chain.in("product"), "gate", gate, "up", up)))
    return failure();
  chain.member<GatedMulOp>(ChainMember::Product);
  chain.current = withElementType(gate, chain.typeAt(RoundingPoint::Product));
  return verifyTail(chain, *this, channelScales);
}

LogicalResult MLPOp::verify() {
  static constexpr RoundingPoint points[] = {
      RoundingPoint::Stream, RoundingPoint::Normed, RoundingPoint::Dequantized,
      RoundingPoint::Up,     RoundingPoint::Act,    RoundingPoint::Down};
  if (failed(verifyRequired(
          *this,
          {{odsIndex_x, "x"}, {odsIndex_up, "up"}, {odsIndex_down, "down"}})))
    return failure();
  FamilyVerifier<MLPOp> chain(*this, points);
  bool quantized =
      hasQuantizedElements(getUp()) || hasQuantizedElements(getDown());
  if (failed(chain.verifyContract({RoundingPoint::Stream}, 1)) ||
      failed(chain.verifyScales(
          {ScaleKind::Input, ScaleKind::Up, ScaleKind::Hidden, ScaleKind::Down},
          {ScaleKind::Input, ScaleKind::Hidden}, quantized)) ||
      failed(chain.verifyChannelScaleCount(getChannelScales())) ||
      failed(chain.verifyHead()))
    return failure();
  ChannelScales channelScales(getScalesAttr(), getQuantAttr(),
                              getChannelScales());
  chain.quantize(ChainMember::QuantizeInput, ChainMember::DequantizeInput);
  RankedTensorType up;
  if (failed(chain.verifyLinearMember(ChainMember::DequantizeUp,
                                      ChainMember::Up, getUp(), getUpBias(),
                                      chain.typeAt(RoundingPoint::Up),
                                      channelScales.take(ScaleKind::Up), up)))
    return failure();
  chain.member<ActivationOp>(ChainMember::Act);
  chain.current = withElementType(up, chain.typeAt(RoundingPoint::Act));
  return verifyTail(chain, *this, channelScales);
}

/// Verifies that the results in `also` have the types of their rounding points.
template <typename OpTy>
static LogicalResult verifyHeadExtras(FamilyVerifier<OpTy> &chain, OpTy op,
                                      RankedTensorType normed,
                                      unsigned firstResult) {
  for (auto [index, extra] : llvm::enumerate(getPoints(op.getExtrasAttr()))) {
    bool isStream = extra == RoundingPoint::Stream;
    if (isStream && !op.getResidual())
      return op.emitOpError("has no residual, so its stream is its input");
    RankedTensorType expected = isStream ? chain.stream : normed;
    Type actual = op.getOutputs()[firstResult + index].getType();
    if (actual != expected)
      return op.emitOpError() << "result '" << stringifyRoundingPoint(extra)
                              << "' must be " << expected << ", got " << actual;
  }
  return success();
}

LogicalResult NormLinearOp::verify() {
  static constexpr RoundingPoint points[] = {
      RoundingPoint::Stream, RoundingPoint::Normed, RoundingPoint::Dequantized};
  if (failed(verifyRequired(*this, {{odsIndex_x, "x"}})))
    return failure();
  FamilyVerifier<NormLinearOp> chain(*this, points);
  unsigned numLinears = getWeights().size();
  if (numLinears == 0)
    return emitOpError("needs at least one linear");
  if (getBiasMask().size() != numLinears ||
      llvm::count(getBiasMask(), true) !=
          static_cast<ptrdiff_t>(getBiases().size()))
    return emitOpError() << "bias_mask must have one entry per linear ("
                         << numLinears << ") and one true entry per bias ("
                         << getBiases().size() << ")";
  SmallVector<ScaleName> names = {ScaleKind::Input};
  for (unsigned i = 0; i < numLinears; ++i)
    names.push_back(ScaleName::weight(i));
  bool quantized = llvm::any_of(getWeights(), hasQuantizedElements);
  if (failed(chain.verifyContract(
          {RoundingPoint::Stream, RoundingPoint::Normed}, numLinears)) ||
      failed(chain.verifyScales(names, {ScaleKind::Input}, quantized)) ||
      failed(chain.verifyChannelScaleCount(getChannelScales())) ||
      failed(chain.verifyHead()))
    return failure();
  RankedTensorType normed = chain.current;
  if (failed(verifyHeadExtras(chain, *this, normed, numLinears)))
    return failure();
  ChannelScales channelScales(getScalesAttr(), getQuantAttr(),
                              getChannelScales());
  chain.quantize(ChainMember::QuantizeInput, ChainMember::DequantizeInput);
  auto bias = getBiases().begin();
  for (unsigned i = 0; i < numLinears; ++i) {
    auto output = cast<RankedTensorType>(getOutputs()[i].getType());
    RankedTensorType expected;
    if (failed(chain.verifyLinearMember(
            ChainMember::DequantizeWeight, ChainMember::Linear, getWeights()[i],
            getBiasMask()[i] ? *bias++ : Value(), output.getElementType(),
            channelScales.take(names[i + 1]), expected)) ||
        failed(verifySameShape(chain.in("linear"), "y", expected, "result",
                               output)))
      return failure();
  }
  return chain.verifyMembers();
}

LogicalResult FusedLinearOp::verify() {
  static constexpr RoundingPoint points[] = {RoundingPoint::Dequantized,
                                             RoundingPoint::Down};
  if (failed(verifyRequired(*this,
                            {{odsIndex_x, "x"}, {odsIndex_weight, "weight"}})))
    return failure();
  FamilyVerifier<FusedLinearOp> chain(*this, points);
  Value residual = getOutputResidual();
  if (getExtrasAttr())
    return emitOpError("has one result, so it supports no 'also'");
  if (failed(chain.verifyContract({}, 1)) ||
      failed(chain.verifyScales({ScaleKind::Input, ScaleName::weight(0)},
                                {ScaleKind::Input},
                                hasQuantizedElements(getWeight()))) ||
      failed(chain.verifyChannelScaleCount(getChannelScales())) ||
      failed(chain.verifyHead()))
    return failure();
  if (!residual && !getScalesAttr() && !getQuantAttr())
    return emitOpError("is one linear; expected 'scales', 'quant' or "
                       "'then_add'");
  ChannelScales channelScales(getScalesAttr(), getQuantAttr(),
                              getChannelScales());
  chain.quantize(ChainMember::QuantizeInput, ChainMember::DequantizeInput);
  auto output = cast<RankedTensorType>(getOutputs()[0].getType());
  RankedTensorType linear;
  if (failed(chain.verifyLinearMember(
          ChainMember::DequantizeWeight, ChainMember::Linear, getWeight(),
          getBias(),
          residual ? chain.typeAt(RoundingPoint::Down)
                   : output.getElementType(),
          channelScales.take(ScaleName::weight(0)), linear)) ||
      (residual &&
       failed(verifySameShape(chain.in("then_add"), "linear", linear,
                              "residual", typeOf(residual)))) ||
      failed(verifySameShape(chain.in("output"), "linear", linear, "result",
                             output)))
    return failure();
  if (residual)
    chain.member<ResidualAddOp>(ChainMember::ThenAdd);
  return chain.verifyMembers();
}

LogicalResult NormQuantizeOp::verify() {
  static constexpr RoundingPoint points[] = {RoundingPoint::Stream,
                                             RoundingPoint::Normed};
  if (failed(verifyRequired(*this, {{odsIndex_x, "x"}})))
    return failure();
  FamilyVerifier<NormQuantizeOp> chain(*this, points);
  if (failed(chain.verifyContract(
          {RoundingPoint::Stream, RoundingPoint::Normed}, 1)) ||
      failed(chain.verifyOnlyScale(ScaleKind::Input)) ||
      failed(chain.verifyHead()) ||
      failed(verifyHeadExtras(chain, *this, chain.current, 1)))
    return failure();
  Type expected = withElementType(chain.current, chain.scales.getStorageType());
  if (getOutputs()[0].getType() != expected)
    return emitOpError() << "result 'quantized' must be " << expected
                         << ", got " << getOutputs()[0].getType();
  chain.member<QuantizeOp>(ChainMember::QuantizeInput);
  return chain.verifyMembers();
}

LogicalResult ActQuantizeOp::verify() {
  static constexpr RoundingPoint points[] = {RoundingPoint::Act,
                                             RoundingPoint::Product};
  FamilyVerifier<ActQuantizeOp> chain(*this, points);
  SmallVector<RoundingPoint> extras = {RoundingPoint::Act};
  if (getFactor())
    extras.push_back(RoundingPoint::Product);
  if (failed(chain.verifyContract(extras, 1)) ||
      failed(chain.verifyOnlyScale(ScaleKind::Hidden)) ||
      failed(verifyTensor(chain.in("input"), "x", getX().getType())))
    return failure();
  if (getFactor() &&
      failed(verifySameShape(chain.in("product"), "x", getX().getType(),
                             "factor", getFactor().getType())))
    return failure();
  auto at = [&](RoundingPoint point) {
    return withElementType(getX().getType(), chain.typeAt(point));
  };
  Type expected =
      withElementType(getX().getType(), chain.scales.getStorageType());
  if (getOutputs()[0].getType() != expected)
    return emitOpError() << "result 'quantized' must be " << expected
                         << ", got " << getOutputs()[0].getType();
  for (auto [index, point] : llvm::enumerate(getPoints(getExtrasAttr()))) {
    Type actual = getOutputs()[index + 1].getType();
    if (actual != at(point))
      return emitOpError() << "result '" << stringifyRoundingPoint(point)
                           << "' must be " << at(point) << ", got " << actual;
  }
  chain.member<ActivationOp>(ChainMember::Act);
  chain.typeAt(RoundingPoint::Act);
  if (getFactor()) {
    chain.member<GatedMulOp>(ChainMember::Product);
    chain.typeAt(RoundingPoint::Product);
  }
  chain.member<QuantizeOp>(ChainMember::QuantizeHidden);
  return chain.verifyMembers();
}

//===----------------------------------------------------------------------===//
// GroupOp
//===----------------------------------------------------------------------===//

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  auto parseInput = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    UnresolvedOperand operand;
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        parser.parseOperand(operand) || parser.parseColonType(argument.type) ||
        parser.parseOptionalLocationSpecifier(argument.sourceLoc))
      return failure();
    return parser.resolveOperand(operand, argument.type, result.operands);
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parseInput) ||
      parser.parseOptionalArrowTypeList(result.types))
    return failure();
  ArrayAttr extras, origins;
  StaticScalesAttr scales;
  RoundingAttr rounding;
  StringAttr site;
  ProvenanceAttr provenance;
  SMLoc loc = parser.getCurrentLocation();
  if (parseContract(parser, extras, scales, rounding, origins, site,
                    provenance))
    return failure();
  if (extras || scales)
    return parser.emitError(loc)
           << "a group supports neither 'also' nor 'scales'";
  Properties &properties = result.getOrAddProperties<Properties>();
  properties.rounding = rounding;
  properties.origins = origins;
  properties.site = site;
  properties.provenance = provenance;
  return failure(parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), arguments));
}

void GroupOp::print(OpAsmPrinter &printer) {
  printer << "(";
  llvm::interleaveComma(
      llvm::zip(getBody().getArguments(), getInputs()), printer,
      [&](auto pair) {
        auto [argument, input] = pair;
        printer << argument << " = " << input << " : " << input.getType();
        printer.printOptionalLocationSpecifier(argument.getLoc());
      });
  printer << ")";
  printer.printOptionalArrowTypeList(getResultTypes());
  printer << " ";
  printContract(printer, *this, {}, {}, getRounding(), getOriginsAttr(),
                getSiteAttr(), getProvenanceAttr());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"rounding", "origins", "site", "provenance"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult GroupOp::verify() {
  if (getBody().front().getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "body expects " << getBody().getArgumentTypes()
                         << ", inputs are " << getInputs().getTypes();
  return success();
}

LogicalResult GroupOp::verifyRegions() {
  Block &block = getBody().front();
  auto yield = dyn_cast_or_null<YieldOp>(
      block.mightHaveTerminator() ? block.getTerminator() : nullptr);
  if (!yield)
    return emitOpError("body must end with fuse.yield");
  if (yield.getValues().getTypes() != getResultTypes())
    return emitOpError() << "body yields " << yield.getValues().getTypes()
                         << ", results are " << getResultTypes();
  for (Operation &member : block.without_terminator())
    if (!isMemoryEffectFree(&member))
      return emitOpError() << "member '" << member.getName()
                           << "' must be free of memory effects";
  // A kernel is one launch, so it cannot contain other kernels.
  WalkResult nested = getBody().walk(
      [](FusedOpInterface op) { return WalkResult::interrupt(); });
  if (nested.wasInterrupted())
    return emitOpError("must not contain another fused op");
  if (!getRounding().getTypes().empty() ||
      getRounding().getBiasPlace() != BiasPlace::BeforeRounding)
    return emitOpError(
        "keeps its members whole, so 'rounding' has no types and no bias");
  ProvenanceAttr provenance = getProvenanceAttr();
  if (!provenance)
    return success();
  if (!provenance.getCommuted().empty() || !provenance.getAttributes().empty())
    return emitOpError(
        "keeps its members whole, so provenance has places only");
  size_t numMembers = block.getOperations().size() - 1;
  if (provenance.getPlaces().size() != numMembers)
    return emitOpError() << "provenance has " << provenance.getPlaces().size()
                         << " places for " << numMembers << " members";
  return success();
}
