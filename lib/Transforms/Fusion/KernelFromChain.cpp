//===- KernelFromChain.cpp - Build the fused op of a matched chain --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of a fused op is its decomposition. A new fused op is kept only
// if its decomposition equals the chain, member by member; otherwise the site
// is refused.
//
//===----------------------------------------------------------------------===//

#include "KernelFromChain.h"
#include "fuse/Analysis/ChainMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Attributes of a kernel
//===----------------------------------------------------------------------===//

/// Names in `loc`, outermost module path first.
static void collectNames(Location loc, SmallVectorImpl<Attribute> &names) {
  loc->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner))
      if (!llvm::is_contained(names, Attribute(name.getName())))
        names.push_back(name.getName());
    return WalkResult::advance();
  });
}

/// The paths of the members' modules, which importers store in locations.
static ArrayAttr getOrigins(ChainMatch &match) {
  SmallVector<Attribute> names;
  for (const ChainMatch::Member &member : match.members)
    collectNames(member.op->getLoc(), names);
  return names.empty() ? ArrayAttr()
                       : ArrayAttr::get(match.anchor->getContext(), names);
}

/// Element types of the rounding points that differ from the input's, and for
/// a relaxed kernel the points whose rounding it may skip.
static RoundingAttr getRounding(ChainMatch &match, RoundingMode mode) {
  MLIRContext *context = match.anchor->getContext();
  Type defaultType = getElementTypeOrSelf(match.getInput());
  SmallVector<RoundedType> types;
  auto add = [&](RoundingPoint point, Operation *member) {
    if (member && !llvm::is_contained(llvm::make_first_range(types), point))
      types.push_back({point, getElementTypeOrSelf(member->getResult(0))});
  };
  add(RoundingPoint::Stream, match.residual);
  add(RoundingPoint::Normed, match.norm);
  for (const ChainMatch::Member &member : match.members)
    if (isa<DequantizeOp, DequantizeWeightOp>(member.op))
      add(RoundingPoint::Dequantized, member.op);
  bool isMLP = match.family == KernelFamily::GatedMLP ||
               match.family == KernelFamily::MLP;
  if (isMLP) {
    add(RoundingPoint::Gate, match.getMember(ChainMember::Gate));
    add(RoundingPoint::Up, match.getMember(ChainMember::Up));
  }
  add(RoundingPoint::Act, match.activation);
  add(RoundingPoint::Product, match.product);
  if (match.thenAdd)
    add(RoundingPoint::Down, match.linears.back());
  SmallVector<RoundingPoint> skip;
  SmallVector<RoundedType> others;
  for (auto [point, type] : types) {
    // The next layer reads the stream, so it is always rounded.
    if (mode == RoundingMode::Relaxed && point != RoundingPoint::Stream &&
        !type.isF32())
      skip.push_back(point);
    if (type != defaultType)
      others.push_back({point, type});
  }
  return RoundingAttr::get(context, mode, skip, others, match.biasPlace);
}

/// Collects the static scales of a kernel under the names of its family, and
/// the operands of those given per channel.
static StaticScalesAttr getScales(ChainMatch &match,
                                  SmallVectorImpl<Value> &channelScales) {
  if (match.quant) {
    for (LinearOp linear : match.linears) {
      if (auto weight = linear.getWeight().getDefiningOp<DequantizeWeightOp>())
        llvm::append_range(channelScales, weight.getScales());
      else
        channelScales.push_back(linear.getChannelScale());
    }
    return {};
  }
  QuantizeOp first =
      match.quantizeInput ? match.quantizeInput : match.quantizeHidden;
  if (!first && !match.weightOnly)
    return {};
  Builder builder(match.anchor->getContext());
  SmallVector<NamedScale> scales;
  auto add = [&](ScaleName name, FloatAttr scale, Value channelScale) {
    if (!scale)
      channelScales.push_back(channelScale);
    scales.push_back({name, scale});
  };
  auto addLinear = [&](ScaleName name, LinearOp linear) {
    if (match.dequantizesWeights()) {
      auto weight = linear.getWeight().getDefiningOp<DequantizeOp>();
      return add(name, weight.getScaleAttr(), weight.getChannelScale());
    }
    add(name, linear.getWeightScaleAttr(), linear.getChannelScale());
  };
  if (match.quantizeInput)
    add(ScaleKind::Input, match.quantizeInput.getScaleAttr(), {});
  if (match.family == KernelFamily::NormLinear ||
      match.family == KernelFamily::FusedLinear)
    for (auto [index, linear] : llvm::enumerate(match.linears))
      addLinear(ScaleName::weight(index), linear);
  else
    for (auto [member, name] : {std::pair(ChainMember::Gate, ScaleKind::Gate),
                                std::pair(ChainMember::Up, ScaleKind::Up)})
      if (auto linear = cast_or_null<LinearOp>(match.getMember(member)))
        addLinear(name, linear);
  if (match.quantizeHidden)
    add(ScaleKind::Hidden, match.quantizeHidden.getScaleAttr(), {});
  if (auto down = cast_or_null<LinearOp>(match.getMember(ChainMember::Down)))
    addLinear(ScaleKind::Down, down);
  if (match.weightOnly) {
    LinearOp linear = match.linears.front();
    auto weight = linear.getWeight().getDefiningOp<DequantizeOp>();
    return StaticScalesAttr::get(
        builder.getContext(), weight.getQ().getType().getElementType(), scales,
        QuantOrder::Reciprocal, QuantForm::WeightOnly);
  }
  return StaticScalesAttr::get(
      first.getContext(), first.getQ().getType().getElementType(), scales,
      first.getOrder(), match.qdq ? QuantForm::QDQ : QuantForm::Scaled);
}

//===----------------------------------------------------------------------===//
// Building the fused op
//===----------------------------------------------------------------------===//

namespace {

/// The operands and attributes that families share.
struct KernelParts {
  SmallVector<Type> resultTypes;
  Value residual, normWeight, normBias, outputResidual;
  NormAttr norm;
  SmallVector<Value> channelScales;
  ArrayAttr extras;
  StaticScalesAttr scales;
  RoundingAttr rounding;
  ArrayAttr origins;
  StringAttr site;
  ProvenanceAttr provenance;
};

} // namespace

/// The weight operand of a linear member: what is stored.
static Value getStoredWeight(ChainMatch &match, LinearOp linear) {
  if (!match.dequantizesWeights())
    return linear.getWeight();
  return linear.getWeight().getDefiningOp()->getOperand(0);
}

static KernelParts getParts(ChainMatch &match, RoundingMode mode,
                            StringAttr site) {
  KernelParts parts;
  MLIRContext *context = site.getContext();
  for (Value result : match.getResults())
    parts.resultTypes.push_back(result.getType());
  if (match.residual)
    parts.residual = match.residual.getRhs();
  if (auto norm = dyn_cast_or_null<RMSNormOp>(match.norm)) {
    parts.normWeight = norm.getWeight();
    parts.norm = NormAttr::get(context, NormKind::RMS, norm.getEpsAttr(),
                               norm.getOffset(), norm.getCast());
  } else if (auto norm = dyn_cast_or_null<LayerNormOp>(match.norm)) {
    parts.normWeight = norm.getWeight();
    parts.normBias = norm.getBias();
    parts.norm = NormAttr::get(context, NormKind::Layer, norm.getEpsAttr(), 0,
                               NormCast::BeforeWeight);
  }
  if (match.thenAdd && !match.addStream) {
    bool downIsLhs = match.thenAdd.getLhs() == match.linears.back().getY();
    parts.outputResidual =
        downIsLhs ? match.thenAdd.getRhs() : match.thenAdd.getLhs();
  }
  SmallVector<Attribute> extras;
  for (auto [point, value] : match.extras)
    extras.push_back(RoundingPointAttr::get(context, point));
  if (!extras.empty())
    parts.extras = ArrayAttr::get(context, extras);
  parts.scales = getScales(match, parts.channelScales);
  parts.rounding = getRounding(match, mode);
  parts.origins = getOrigins(match);
  parts.site = site;
  if (!match.commuted.empty())
    parts.provenance = ProvenanceAttr::get(context, {}, 0, match.commuted, {});
  return parts;
}

/// Creates the fused op of a match without provenance of its members.
static FusedOpInterface createKernel(OpBuilder &builder, Location loc,
                                     ChainMatch &match, const KernelParts &p) {
  auto weight = [&](unsigned i) {
    return getStoredWeight(match, match.linears[i]);
  };
  auto bias = [&](unsigned i) -> Value {
    LinearOp linear = match.linears[i];
    return linear.getBias();
  };
  UnitAttr addStream = match.addStream ? builder.getUnitAttr() : UnitAttr();
  ActivationAttr activation;
  if (ActivationOp op = match.activation)
    activation = op.getKindAttr();
  switch (match.family) {
  case KernelFamily::GatedMLP:
    return GatedMLPOp::create(
        builder, loc, p.resultTypes, match.getInput(), p.residual, p.normWeight,
        p.normBias, weight(0), bias(0), weight(1), bias(1), weight(2), bias(2),
        p.outputResidual, p.channelScales, p.norm, activation, addStream,
        match.quant, p.extras, p.scales, p.rounding, p.origins, p.site,
        p.provenance);
  case KernelFamily::MLP:
    return MLPOp::create(
        builder, loc, p.resultTypes, match.getInput(), p.residual, p.normWeight,
        p.normBias, weight(0), bias(0), weight(1), bias(1), p.outputResidual,
        p.channelScales, p.norm, activation, addStream, match.quant, p.extras,
        p.scales, p.rounding, p.origins, p.site, p.provenance);
  case KernelFamily::NormLinear: {
    SmallVector<Value> weights, biases;
    SmallVector<bool> mask;
    for (unsigned i = 0; i < match.linears.size(); ++i) {
      weights.push_back(weight(i));
      mask.push_back(bool(bias(i)));
      if (mask.back())
        biases.push_back(bias(i));
    }
    return NormLinearOp::create(
        builder, loc, p.resultTypes, match.getInput(), p.residual, p.normWeight,
        p.normBias, weights, biases, p.channelScales, p.norm,
        builder.getDenseBoolArrayAttr(mask), match.quant, p.extras, p.scales,
        p.rounding, p.origins, p.site, p.provenance);
  }
  case KernelFamily::FusedLinear:
    return FusedLinearOp::create(
        builder, loc, p.resultTypes, match.getInput(), weight(0), bias(0),
        p.outputResidual, p.channelScales, match.quant, p.extras, p.scales,
        p.rounding, p.origins, p.site, p.provenance);
  case KernelFamily::NormQuantize:
    return NormQuantizeOp::create(builder, loc, p.resultTypes, match.getInput(),
                                  p.residual, p.normWeight, p.normBias, p.norm,
                                  p.extras, p.scales, p.rounding, p.origins,
                                  p.site, p.provenance);
  case KernelFamily::ActQuantize: {
    Value factor;
    if (GatedMulOp product = match.product) {
      ActivationOp act = match.activation;
      factor =
          product.getLhs() == act.getY() ? product.getRhs() : product.getLhs();
    }
    return ActQuantizeOp::create(builder, loc, p.resultTypes, match.getInput(),
                                 factor, activation, p.extras, p.scales,
                                 p.rounding, p.origins, p.site, p.provenance);
  }
  case KernelFamily::Group:
    break;
  }
  llvm_unreachable("a match has a family with a chain");
}

/// Whether the decomposition of `kernel` is the chain of `match`: the same ops
/// on the same operands, member by member.
static bool reproducesChain(FusedOpInterface kernel, ChainMatch &match) {
  for (Value operand : kernel->getOperands())
    for (const ChainMatch::Member &member : match.members)
      if (operand.getDefiningOp() == member.op)
        return false;
  OpBuilder builder(kernel);
  Decomposition chain = kernel.decompose(builder);
  bool same = chain.members.size() == match.members.size();
  DenseMap<Value, Value> original;
  for (unsigned i = 0; same && i < chain.members.size(); ++i) {
    Operation *built = chain.members[i], *member = match.members[i].op;
    same = chain.names[i] == match.members[i].name &&
           OperationEquivalence::isEquivalentTo(
               member, built,
               [&](Value lhs, Value rhs) {
                 auto it = original.find(rhs);
                 Value value = it == original.end() ? rhs : it->second;
                 return success(lhs == value);
               },
               /*markEquivalent=*/nullptr,
               OperationEquivalence::IgnoreDiscardableAttrs |
                   OperationEquivalence::IgnoreLocations);
    if (same)
      for (auto [ours, theirs] :
           llvm::zip_equal(built->getResults(), member->getResults()))
        original[ours] = theirs;
  }
  if (same)
    for (auto [built, result] :
         llvm::zip_equal(chain.results, match.getResults())) {
      auto it = original.find(built);
      same &= (it == original.end() ? built : it->second) == result;
    }
  for (Operation *member : llvm::reverse(chain.members))
    member->erase();
  return same;
}

/// Creates the attribute from which unfusing restores the members: their places
/// among the ops between them, and their discardable attributes.
static ProvenanceAttr getProvenance(ChainMatch &match,
                                    ProvenanceAttr canonical) {
  MLIRContext *context = match.anchor->getContext();
  SmallVector<Operation *> members;
  SmallVector<DictionaryAttr> attributes;
  for (const ChainMatch::Member &member : match.members) {
    members.push_back(member.op);
    attributes.push_back(member.op->getDiscardableAttrDictionary());
  }
  auto isBefore = [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  };
  Operation *first = *llvm::min_element(members, isBefore);
  Operation *last = *llvm::max_element(members, isBefore);
  DenseMap<Operation *, int64_t> placeOf;
  int64_t before = 0, place = 0;
  for (Operation *op = first;; op = op->getNextNode()) {
    placeOf[op] = place++;
    if (op == last)
      break;
    if (op->isBeforeInBlock(match.anchor) && !llvm::is_contained(members, op))
      ++before;
  }
  SmallVector<int64_t> places;
  for (Operation *member : members)
    places.push_back(placeOf[member]);
  if (llvm::equal(places, llvm::seq<int64_t>(0, members.size())))
    places.clear();
  if (llvm::all_of(attributes, [](DictionaryAttr a) { return a.empty(); }))
    attributes.clear();
  if (places.empty() && attributes.empty())
    return canonical;
  return ProvenanceAttr::get(context, places, places.empty() ? 0 : before,
                             canonical ? canonical.getCommuted()
                                       : ArrayRef<ChainMember>(),
                             attributes);
}

FusedOpInterface fuse::createKernelFromChain(ChainMatch &match,
                                             RoundingMode mode,
                                             StringAttr site) {
  SmallVector<Location> locs;
  for (const ChainMatch::Member &member : match.members)
    locs.push_back(member.op->getLoc());
  OpBuilder builder(match.anchor);
  KernelParts parts = getParts(match, mode, site);
  FusedOpInterface kernel = createKernel(
      builder, getFusedLocation(builder.getContext(), locs), match, parts);
  if (!reproducesChain(kernel, match)) {
    kernel->erase();
    return {};
  }
  // Places do not count the kernel itself.
  kernel->remove();
  ProvenanceAttr provenance = getProvenance(match, parts.provenance);
  match.anchor->getBlock()->getOperations().insert(match.anchor->getIterator(),
                                                   kernel);
  if (provenance)
    kernel.setProvenanceAttr(provenance);
  return kernel;
}
