//===- ChainMatch.cpp - Match chains of layer ops -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A match starts at an op that identifies the kind of chain: an activation or
// a norm. It follows the data flow in both directions and stops at the first
// predicate that fails. An intermediate may only be used inside of the chain,
// unless the family can return it as an additional result.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ChainMatch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

Operation *ChainMatch::getMember(ChainMember name) const {
  for (const Member &member : members)
    if (member.name == name)
      return member.op;
  return nullptr;
}

Value ChainMatch::getInput() const {
  // The operand is read on every call, because a kernel formed after the match
  // may have replaced it. Only the dequantize op of a weight can precede the op
  // that reads the input.
  Operation *first = members.front().op;
  if (weightOnly && isa<DequantizeOp, DequantizeWeightOp>(first))
    first = linears.front();
  return first->getOperand(0);
}

SmallVector<Value> ChainMatch::getResults() const {
  SmallVector<Value> results;
  switch (family) {
  case KernelFamily::GatedMLP:
  case KernelFamily::MLP:
    results.push_back(
        getMember(thenAdd ? ChainMember::ThenAdd : ChainMember::Down)
            ->getResult(0));
    break;
  case KernelFamily::NormLinear:
    for (LinearOp linear : linears)
      results.push_back(linear->getResult(0));
    break;
  case KernelFamily::NormQuantize:
  case KernelFamily::ActQuantize:
  case KernelFamily::FusedLinear:
    results.push_back(members.back().op->getResult(0));
    break;
  case KernelFamily::Group:
    llvm_unreachable("a group has no chain");
  }
  for (auto [point, value] : extras)
    results.push_back(value);
  return results;
}

Operation *ChainMatch::getUserBeforeAnchor() const {
  for (Value result : getResults())
    for (Operation *user : result.getUsers()) {
      Operation *inBlock = anchor->getBlock()->findAncestorOpInBlock(*user);
      bool isMember = llvm::any_of(
          members, [&](const Member &member) { return member.op == user; });
      if (inBlock && !isMember && inBlock->isBeforeInBlock(anchor))
        return user;
    }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Data flow
//===----------------------------------------------------------------------===//

/// The only op that uses `value`, once, or null.
static Operation *getSoleUser(Value value) {
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

/// A user of `value` that is not among `members`, or null.
static Operation *getOtherUser(Value value, ArrayRef<Operation *> members) {
  for (Operation *user : value.getUsers())
    if (!llvm::is_contained(members, user))
      return user;
  return nullptr;
}

/// The first unclaimed op in the block of `value` that quantizes it with one
/// scale, or null. The order of users is unspecified, so it is not used.
static QuantizeOp getFirstQuantize(Value value, const ChainMatcher &matcher) {
  QuantizeOp first;
  for (Operation *user : value.getUsers()) {
    auto quantize = dyn_cast<QuantizeOp>(user);
    if (quantize && quantize.getScaleAttr() && !matcher.isClaimed(quantize) &&
        quantize->getBlock() == value.getParentBlock() &&
        (!first || quantize->isBeforeInBlock(first)))
      first = quantize;
  }
  return first;
}

/// The only unclaimed op in the block of `value` that quantizes it with a scale
/// that it measures by a contract, or null.
static DynamicQuantizeOp getMeasure(Value value, const ChainMatcher &matcher) {
  DynamicQuantizeOp found;
  for (Operation *user : value.getUsers()) {
    auto measure = dyn_cast<DynamicQuantizeOp>(user);
    if (!measure || !measure.getQuantAttr() || matcher.isClaimed(measure) ||
        measure->getBlock() != value.getParentBlock())
      continue;
    if (found)
      return {};
    found = measure;
  }
  return found;
}

/// Whether `op`, which no kernel has, only moves or converts the elements of a
/// tensor.
static bool isMove(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return llvm::all_of(*generic.getBody(), [](Operation &inner) {
      return isa<arith::ExtFOp, arith::TruncFOp, linalg::YieldOp>(inner);
    });
  return isa<tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp,
             tensor::ExtractSliceOp, arith::ExtFOp, arith::TruncFOp,
             linalg::TransposeOp, linalg::BroadcastOp>(op);
}

/// Whether `op` computes each element from single elements of its operands.
static bool isMap(Operation *op) {
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return structured.hasPureTensorSemantics() &&
           structured.getNumReductionLoops() == 0;
  return isa<GatedMulOp>(op) || op->hasTrait<OpTrait::Elementwise>();
}

namespace {

/// What stands between a value and the linears that it is computed from.
struct Between {
  bool hasLinear = false, hasActivation = false;
  /// A part of the result of a linear.
  tensor::ExtractSliceOp slice;
  /// The op that computes and is nearest to the value; null if ops only move
  /// elements.
  Operation *last = nullptr;
};

} // namespace

/// Follows `value` to linears in its block, through ops that compute element by
/// element.
static Between traceToLinears(Value value) {
  // Bounds the time; functions between linears have far fewer tensors.
  constexpr unsigned maxValues = 32;
  Between between;
  Block *block = value.getParentBlock();
  llvm::SmallSetVector<Value, 8> values;
  values.insert(value);
  for (unsigned i = 0; i < values.size() && i < maxValues; ++i) {
    Operation *op = values[i].getDefiningOp();
    if (!op || op->getBlock() != block)
      continue;
    if (isa<LinearOp>(op))
      between.hasLinear = true;
    if (isa<ActivationOp>(op))
      between.hasActivation = true;
    bool moves =
        isMove(op) || isa<QuantizeOp, DequantizeOp, DynamicQuantizeOp>(op);
    if (!moves && !isMap(op))
      continue;
    if (!moves && !between.last)
      between.last = op;
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
        slice && slice.getSource().getDefiningOp<LinearOp>())
      between.slice = slice;
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        values.insert(operand);
  }
  return between;
}

namespace {

/// The input of linears and the ops that quantize and dequantize it.
struct QuantizedInput {
  /// The floating-point value that the chain computed.
  Value source;
  QuantizeOp quantize;
  DequantizeOp dequantize;
  DynamicQuantizeOp measure;
};

/// Matches one family. Predicates return false after they record a refusal.
class FamilyMatcher {
public:
  FamilyMatcher(const ChainMatcher &matcher, bool withResidual)
      : matcher(matcher), withResidual(withResidual) {}

  bool matchMLP(ActivationOp activation);
  bool matchActQuantize(ActivationOp activation);
  bool matchNormLinear(Operation *norm);
  bool matchNormQuantize(Operation *norm);
  bool matchLinear(LinearOp linear);

  Refusal getRefusal() const { return *refusal; }
  ChainMatch take() { return std::move(match); }

private:
  bool refuse(RefusalKind kind, Operation *at) {
    refusal = Refusal{kind, at};
    return false;
  }
  /// Refuses `value`, which is not the result of a linear, for the op that is
  /// between it and a linear. Without a linear, the refusal is `kind` at
  /// `user`.
  bool refuseOperand(Value value, RefusalKind kind, Operation *user) {
    if (value.getDefiningOp<LinearOp>())
      return refuse(kind, user);
    Between between = traceToLinears(value);
    if (!between.hasLinear)
      return refuse(kind, user);
    return between.slice
               ? refuse(RefusalKind::MergedProjections, between.slice)
               : refuse(RefusalKind::OpBeforeActivation, value.getDefiningOp());
  }
  void noteLimit(RefusalKind kind, Operation *at) {
    match.limit = Refusal{kind, at};
  }
  void add(ChainMember name, Operation *op) {
    if (op)
      match.members.push_back({name, op});
  }

  bool findHidden(LinearOp first, SmallVector<LinearOp> &inputLinears,
                  Value &hidden);
  LinearOp findDown(Value hidden);
  bool traceInput(ArrayRef<LinearOp> linears, QuantizedInput &input);
  bool checkQuantization(const QuantizedInput &input,
                         const QuantizedInput &inner, LinearOp down);
  bool traceMeasured(ArrayRef<LinearOp> linears, QuantizedInput &input);
  bool checkScales(LinearOp linear, QuantizedInput input);
  bool refuseInputs(LinearOp gate, LinearOp up);
  bool checkBiases(ArrayRef<LinearOp> linears);
  void noteStoredWeights(ArrayRef<LinearOp> linears);
  void absorbHead(Value source, ArrayRef<Operation *> users);
  void absorbResidual(Operation *norm);
  void absorbTail(LinearOp down);
  void addLinear(ChainMember dequantizeName, ChainMember name, LinearOp linear);
  bool chooseAnchor();
  bool noteExtras();

  const ChainMatcher &matcher;
  bool withResidual;
  ChainMatch match;
  std::optional<Refusal> refusal;
};

} // namespace

/// Finds the common input of `linears` before quantization. Refuses a value
/// that was quantized outside of the chain.
bool FamilyMatcher::traceInput(ArrayRef<LinearOp> linears,
                               QuantizedInput &input) {
  LinearOp first = linears.front();
  input.source = first.getX();
  auto isStored = [](Value value) {
    return !cast<RankedTensorType>(value.getType())
                .getElementType()
                .isFloat() ||
           cast<RankedTensorType>(value.getType()).getElementTypeBitWidth() ==
               8;
  };
  SmallVector<Operation *> users(linears.begin(), linears.end());
  if (!isStored(input.source)) {
    auto dequantize = input.source.getDefiningOp<DequantizeOp>();
    if (!dequantize)
      return true;
    // A dequantized input belongs to the chain only if it was quantized for
    // these linears; otherwise it is an ordinary input. An input that a kernel
    // quantized was refused when that kernel was formed. It is refused again,
    // so that forming is idempotent.
    Operation *def = dequantize.getQ().getDefiningOp();
    auto quantize = dyn_cast_or_null<QuantizeOp>(def);
    if (!isa_and_nonnull<QuantizeOp, FusedOpInterface>(def) ||
        getOtherUser(dequantize.getX(), users) ||
        !dequantize.getQ().hasOneUse())
      return true;
    if (!quantize)
      return refuse(RefusalKind::InputNotQuantizedHere, def);
    input.dequantize = dequantize;
    input.quantize = quantize;
  } else {
    if (first.getDynamicScale())
      return traceMeasured(linears, input);
    input.quantize = input.source.getDefiningOp<QuantizeOp>();
    if (!input.quantize)
      return refuse(RefusalKind::InputNotQuantizedHere, first);
    if (Operation *other = getOtherUser(input.source, users))
      return refuse(RefusalKind::IntermediateHasOtherUsers, other);
  }
  // The static scales of a kernel are numbers, one per activation.
  if (!input.quantize.getScaleAttr())
    return refuse(RefusalKind::InputScaleNotOneNumber, input.quantize);
  if (matcher.isClaimed(input.quantize))
    return refuse(RefusalKind::InputNotQuantizedHere, input.quantize);
  if (input.dequantize &&
      input.dequantize.getScaleAttr() != input.quantize.getScaleAttr())
    return refuse(RefusalKind::ScaleMismatch, input.dequantize);
  for (LinearOp linear : linears)
    if (!checkScales(linear, input))
      return false;
  input.source = input.quantize.getX();
  return true;
}

/// Finds the op that measures the scale of the common input of `linears`. Its
/// contract must be that of all linears. Only a contract with granularities has
/// a kernel.
bool FamilyMatcher::traceMeasured(ArrayRef<LinearOp> linears,
                                  QuantizedInput &input) {
  LinearOp first = linears.front();
  // Kernels compute tokens without those of others.
  if (!first.getQuantAttr() ||
      first.getQuantAttr().getActivations() == ScaleScope::PerTensor)
    return refuse(RefusalKind::DynamicScale, first);
  auto measure = first.getX().getDefiningOp<DynamicQuantizeOp>();
  if (!measure || matcher.isClaimed(measure))
    return refuse(RefusalKind::InputNotQuantizedHere, first);
  SmallVector<Operation *> users(linears.begin(), linears.end());
  for (Value result : measure->getResults())
    if (Operation *other = getOtherUser(result, users))
      return refuse(RefusalKind::IntermediateHasOtherUsers, other);
  for (LinearOp linear : linears) {
    if (linear.getDynamicScale() != measure.getScale())
      return refuse(RefusalKind::ScaleMismatch, linear);
    if (linear.getQuantAttr() != measure.getQuantAttr())
      return refuse(RefusalKind::QuantContractsDiffer, linear);
  }
  input.measure = measure;
  input.source = measure.getX();
  return true;
}

/// Checks that the weight of a linear is quantized in the style of its input.
bool FamilyMatcher::checkScales(LinearOp linear, QuantizedInput input) {
  if (input.dequantize) {
    auto weight = linear.getWeight().getDefiningOp<DequantizeOp>();
    if (!weight || !weight.getX().hasOneUse() || matcher.isClaimed(weight))
      return refuse(RefusalKind::MixedQuantization, linear);
    // One scale per weight and one per output channel are both supported.
    return true;
  }
  if (linear.getInputScaleAttr() != input.quantize.getScaleAttr())
    return refuse(RefusalKind::ScaleMismatch, linear);
  return true;
}

/// Refuses gate and up, which read different values. The refusal distinguishes
/// one value that is quantized twice, with different scales or to different
/// types.
bool FamilyMatcher::refuseInputs(LinearOp gate, LinearOp up) {
  auto getQuantize = [](Value x) {
    if (auto dequantize = x.getDefiningOp<DequantizeOp>())
      x = dequantize.getQ();
    return x.getDefiningOp<QuantizeOp>();
  };
  QuantizeOp first = getQuantize(gate.getX()), second = getQuantize(up.getX());
  bool sameSource = first && second && first.getX() == second.getX();
  if (sameSource && first.getQ().getType() != second.getQ().getType())
    return refuse(RefusalKind::StorageTypesDiffer, up);
  return refuse(sameSource && first.getScaleAttr() != second.getScaleAttr()
                    ? RefusalKind::InputScalesDiffer
                    : RefusalKind::GateAndUpInputsDiffer,
                up);
}

/// Checks that all biases are added in the same place, which is part of the
/// kernel's contract.
bool FamilyMatcher::checkBiases(ArrayRef<LinearOp> linears) {
  std::optional<BiasPlace> place;
  for (LinearOp linear : linears) {
    if (!linear.getBias())
      continue;
    if (place && *place != linear.getBiasPlace())
      return refuse(RefusalKind::BiasPlacesDiffer, linear);
    place = linear.getBiasPlace();
  }
  match.biasPlace = place.value_or(BiasPlace::BeforeRounding);
  return true;
}

/// Sets `weightOnly` if all linears, whose inputs are not quantized, read
/// stored weights of one type. The dequantize ops become members of the kernel.
void FamilyMatcher::noteStoredWeights(ArrayRef<LinearOp> linears) {
  // The type of all weights, or the contract of weights of 4 bits.
  Attribute storage;
  for (LinearOp linear : linears) {
    Operation *weight = linear.getWeight().getDefiningOp();
    if (!isa_and_nonnull<DequantizeOp, DequantizeWeightOp>(weight) ||
        !weight->hasOneUse() || matcher.isClaimed(weight) ||
        weight->getBlock() != linear->getBlock())
      return;
    Attribute own;
    if (auto packed = dyn_cast<DequantizeWeightOp>(weight))
      own = packed.getQuant();
    else
      own = TypeAttr::get(getElementTypeOrSelf(weight->getOperand(0)));
    if (storage && storage != own)
      return;
    storage = own;
  }
  match.weightOnly = true;
  match.quant = dyn_cast<QuantAttr>(storage);
}

/// Adds `[residual_add] norm` before `users`, if only the chain uses them.
void FamilyMatcher::absorbHead(Value source, ArrayRef<Operation *> users) {
  Operation *norm = source.getDefiningOp();
  if (!isa_and_nonnull<RMSNormOp, LayerNormOp>(norm) || matcher.isClaimed(norm))
    return;
  if (norm->getBlock() != users.front()->getBlock())
    return noteLimit(RefusalKind::MembersInDifferentBlocks, norm);
  if (Operation *other = getOtherUser(source, users))
    return noteLimit(RefusalKind::IntermediateHasOtherUsers, other);
  match.norm = norm;
  absorbResidual(norm);
}

/// Adds the residual add that computes the stream. If its sum has other users,
/// the kernel returns it as a second result.
void FamilyMatcher::absorbResidual(Operation *norm) {
  auto residual = norm->getOperand(0).getDefiningOp<ResidualAddOp>();
  if (!withResidual || !residual || matcher.isClaimed(residual) ||
      residual->getBlock() != norm->getBlock())
    return;
  match.residual = residual;
}

/// Adds the residual add after the down projection, if it is its only user.
void FamilyMatcher::absorbTail(LinearOp down) {
  auto add = dyn_cast_or_null<ResidualAddOp>(getSoleUser(down.getY()));
  if (!add || matcher.isClaimed(add) || add->getBlock() != down->getBlock())
    return;
  match.thenAdd = add;
  bool downIsLhs = add.getLhs() == down.getY();
  Value other = downIsLhs ? add.getRhs() : add.getLhs();
  if (downIsLhs)
    match.commuted.push_back(ChainMember::ThenAdd);
  match.addStream = match.residual && other == match.residual.getY();
}

void FamilyMatcher::addLinear(ChainMember dequantizeName, ChainMember name,
                              LinearOp linear) {
  match.linears.push_back(linear);
  if (match.dequantizesWeights())
    add(dequantizeName, linear.getWeight().getDefiningOp());
  add(name, linear);
}

/// The last assert among the members, or null. It may guard what a later member
/// reads.
static Operation *getLastAssert(ArrayRef<Operation *> members) {
  auto isBefore = [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  };
  Operation *first = *llvm::min_element(members, isBefore);
  Operation *op = *llvm::max_element(members, isBefore);
  while (op != first && !isa<cf::AssertOp>(op))
    op = op->getPrevNode();
  return op == first ? nullptr : op;
}

/// Finds the first member after all operands of the kernel and all asserts, and
/// checks that no result is used before it.
bool FamilyMatcher::chooseAnchor() {
  SmallVector<Operation *> members;
  for (const ChainMatch::Member &member : match.members)
    members.push_back(member.op);
  Block *block = members.front()->getBlock();
  for (Operation *member : members)
    if (member->getBlock() != block)
      return refuse(RefusalKind::MembersInDifferentBlocks, member);
  Operation *lastOperand = nullptr;
  for (Operation *member : members)
    for (Value operand : member->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || def->getBlock() != block || llvm::is_contained(members, def))
        continue;
      if (!lastOperand || lastOperand->isBeforeInBlock(def))
        lastOperand = def;
    }
  auto place = [&](Operation *after) {
    match.anchor = nullptr;
    for (Operation *member : members)
      if ((!after || after->isBeforeInBlock(member)) &&
          (!match.anchor || member->isBeforeInBlock(match.anchor)))
        match.anchor = member;
    return match.getUserBeforeAnchor();
  };
  if (Operation *user = place(lastOperand))
    return refuse(RefusalKind::ResultUsedBeforeOperands, user);
  Operation *check = getLastAssert(members);
  if (!check || (lastOperand && check->isBeforeInBlock(lastOperand)))
    return true;
  if (Operation *user = place(check))
    return refuse(RefusalKind::ResultUsedBeforeAssert, user);
  return true;
}

/// Records the returnable intermediates that are used outside of the chain, and
/// chooses the anchor.
bool FamilyMatcher::noteExtras() {
  SmallVector<Operation *> members;
  for (const ChainMatch::Member &member : match.members)
    members.push_back(member.op);
  if (match.residual && getOtherUser(match.residual.getY(), members))
    match.extras.push_back({RoundingPoint::Stream, match.residual.getY()});
  bool returnsNormed = match.family == KernelFamily::NormLinear ||
                       match.family == KernelFamily::NormQuantize;
  if (returnsNormed && getOtherUser(match.norm->getResult(0), members))
    match.extras.push_back({RoundingPoint::Normed, match.norm->getResult(0)});
  return chooseAnchor();
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// Finds the hidden value after the activation of `first`, and the linears that
/// it is computed from: two in a gated MLP.
bool FamilyMatcher::findHidden(LinearOp first,
                               SmallVector<LinearOp> &inputLinears,
                               Value &hidden) {
  ActivationOp activation = match.activation;
  Operation *user = getSoleUser(activation.getY());
  if (!user)
    return activation.getY().use_empty()
               ? refuse(RefusalKind::NoDownProjection, activation)
               : refuse(RefusalKind::IntermediateHasOtherUsers,
                        *activation.getY().user_begin());
  hidden = activation.getY();
  inputLinears = {first};
  match.product = dyn_cast<GatedMulOp>(user);
  match.family = match.product ? KernelFamily::GatedMLP : KernelFamily::MLP;
  if (!match.product)
    return true;
  bool actIsLhs = match.product.getLhs() == activation.getY();
  Value other = actIsLhs ? match.product.getRhs() : match.product.getLhs();
  if (!actIsLhs)
    match.commuted.push_back(ChainMember::Product);
  auto up = other.getDefiningOp<LinearOp>();
  if (!up || matcher.isClaimed(up))
    return refuseOperand(other, RefusalKind::GatePartnerNotLinear,
                         match.product);
  if (Operation *extra = getOtherUser(up.getY(), {match.product}))
    return refuse(RefusalKind::IntermediateHasOtherUsers, extra);
  if (up.getX() != first.getX())
    return refuseInputs(first, up);
  inputLinears.push_back(up);
  hidden = match.product.getY();
  return true;
}

/// The linear that reads the hidden value, quantized or not, or null after a
/// refusal.
LinearOp FamilyMatcher::findDown(Value hidden) {
  Value downInput = hidden;
  while (true) {
    Operation *next = getSoleUser(downInput);
    if (!next) {
      if (downInput.use_empty())
        refuse(RefusalKind::NoDownProjection, match.activation);
      else
        refuse(RefusalKind::IntermediateHasOtherUsers, *downInput.user_begin());
      return {};
    }
    if (auto measure = dyn_cast<DynamicQuantizeOp>(next)) {
      if (!measure.getQuantAttr() || downInput != hidden) {
        refuse(RefusalKind::DynamicScale, next);
        return {};
      }
      downInput = measure.getQ();
      continue;
    }
    bool quantizes = isa<QuantizeOp>(next) && downInput == hidden;
    bool dequantizes =
        isa<DequantizeOp>(next) && downInput.getDefiningOp<QuantizeOp>();
    if (quantizes || dequantizes) {
      downInput = next->getResult(0);
      continue;
    }
    auto down = dyn_cast<LinearOp>(next);
    if (down && down.getX() == downInput && !matcher.isClaimed(down))
      return down;
    refuse(RefusalKind::NoDownProjection, next);
    return {};
  }
}

/// Checks that both inputs are quantized in the same way, or neither is.
bool FamilyMatcher::checkQuantization(const QuantizedInput &input,
                                      const QuantizedInput &inner,
                                      LinearOp down) {
  QuantizeOp outer = input.quantize, hidden = inner.quantize;
  if (bool(outer) != bool(hidden) || bool(input.measure) != bool(inner.measure))
    return refuse(RefusalKind::MixedQuantization, down);
  DynamicQuantizeOp first = input.measure, second = inner.measure;
  if (first && first.getQuantAttr() != second.getQuantAttr())
    return refuse(RefusalKind::QuantContractsDiffer, second);
  if (!outer)
    return true;
  if (outer.getQ().getType().getElementType() !=
      hidden.getQ().getType().getElementType())
    return refuse(RefusalKind::StorageTypesDiffer, hidden);
  if (outer.getOrder() != hidden.getOrder())
    return refuse(RefusalKind::DivisionOrdersDiffer, hidden);
  if (bool(input.dequantize) != bool(inner.dequantize))
    return refuse(RefusalKind::QuantizationStylesDiffer, hidden);
  return true;
}

bool FamilyMatcher::matchMLP(ActivationOp activation) {
  match.activation = activation;
  auto first = activation.getX().getDefiningOp<LinearOp>();
  if (!first || matcher.isClaimed(first))
    return refuseOperand(activation.getX(),
                         RefusalKind::ActivationInputNotLinear, activation);
  if (Operation *other = getOtherUser(first.getY(), {activation}))
    return refuse(RefusalKind::IntermediateHasOtherUsers, other);

  SmallVector<LinearOp> inputLinears;
  Value hidden;
  if (!findHidden(first, inputLinears, hidden))
    return false;
  LinearOp down = findDown(hidden);
  if (!down)
    return false;
  QuantizedInput input, inner;
  if (!traceInput(inputLinears, input) || !traceInput({down}, inner))
    return false;
  if (inner.source != hidden)
    return refuse(RefusalKind::NoDownProjection, down);
  if (!checkQuantization(input, inner, down))
    return false;
  match.quantizeInput = input.quantize;
  match.quantizeHidden = inner.quantize;
  match.qdq = bool(input.dequantize);
  match.measureInput = input.measure;
  match.measureHidden = inner.measure;
  if (match.measureInput)
    match.quant = match.measureInput.getQuantAttr();
  SmallVector<LinearOp> all(inputLinears);
  all.push_back(down);
  if (!checkBiases(all))
    return false;
  if (down.getBias())
    for (Operation *user : down.getY().getUsers())
      if (isa<AllReduceOp>(user))
        return refuse(RefusalKind::BiasBeforeReduction, user);
  if (!input.quantize && !input.measure)
    noteStoredWeights(all);

  SmallVector<Operation *> headUsers;
  if (input.quantize)
    headUsers.push_back(input.quantize);
  else if (input.measure)
    headUsers.push_back(input.measure);
  else
    headUsers.append(inputLinears.begin(), inputLinears.end());
  absorbHead(input.source, headUsers);
  absorbTail(down);

  add(ChainMember::Residual, match.residual);
  add(ChainMember::Norm, match.norm);
  add(ChainMember::QuantizeInput, input.quantize);
  add(ChainMember::QuantizeInput, input.measure);
  add(ChainMember::DequantizeInput, input.dequantize);
  if (match.product) {
    addLinear(ChainMember::DequantizeGate, ChainMember::Gate, first);
    add(ChainMember::Act, activation);
    addLinear(ChainMember::DequantizeUp, ChainMember::Up, inputLinears[1]);
    add(ChainMember::Product, match.product);
  } else {
    addLinear(ChainMember::DequantizeUp, ChainMember::Up, first);
    add(ChainMember::Act, activation);
  }
  add(ChainMember::QuantizeHidden, inner.quantize);
  add(ChainMember::QuantizeHidden, inner.measure);
  add(ChainMember::DequantizeHidden, inner.dequantize);
  addLinear(ChainMember::DequantizeDown, ChainMember::Down, down);
  add(ChainMember::ThenAdd, match.thenAdd);
  return noteExtras();
}

bool FamilyMatcher::matchActQuantize(ActivationOp activation) {
  match.family = KernelFamily::ActQuantize;
  match.activation = activation;
  Value value = activation.getY();
  auto product = dyn_cast_or_null<GatedMulOp>(getSoleUser(value));
  if (product && !matcher.isClaimed(product) &&
      getFirstQuantize(product.getY(), matcher)) {
    match.product = product;
    if (product.getLhs() != value)
      match.commuted.push_back(ChainMember::Product);
    value = product.getY();
  }
  match.quantizeHidden = getFirstQuantize(value, matcher);
  if (!match.quantizeHidden)
    return refuse(RefusalKind::NoConsumer, activation);
  add(ChainMember::Act, activation);
  add(ChainMember::Product, match.product);
  add(ChainMember::QuantizeHidden, match.quantizeHidden);
  if (getOtherUser(value, {match.quantizeHidden}))
    match.extras.push_back(
        {match.product ? RoundingPoint::Product : RoundingPoint::Act, value});
  return chooseAnchor();
}

bool FamilyMatcher::matchNormLinear(Operation *norm) {
  match.family = KernelFamily::NormLinear;
  match.norm = norm;
  Value source = norm->getResult(0);
  // The chain is quantized if a static quantize op is between norm and linears.
  match.quantizeInput = getFirstQuantize(source, matcher);
  DequantizeOp dequantize;
  if (match.quantizeInput) {
    source = match.quantizeInput.getQ();
    dequantize = dyn_cast_or_null<DequantizeOp>(getSoleUser(source));
    if (dequantize)
      source = dequantize.getX();
  } else if (auto measure = getMeasure(source, matcher)) {
    match.measureInput = measure;
    match.quant = measure.getQuantAttr();
    source = measure.getQ();
  }
  SmallVector<LinearOp> linears;
  for (Operation *user : source.getUsers()) {
    auto linear = dyn_cast<LinearOp>(user);
    if (linear && linear.getX() == source && linear.getWeight() != source &&
        linear->getBlock() == norm->getBlock() && !matcher.isClaimed(linear))
      linears.push_back(linear);
  }
  if (linears.empty()) {
    for (Operation *user : source.getUsers())
      if (isa<DynamicQuantizeOp>(user))
        return refuse(RefusalKind::DynamicScale, user);
    return refuse(RefusalKind::NoConsumer, norm);
  }
  // The order of users is unspecified; members are in program order.
  llvm::sort(linears,
             [](LinearOp a, LinearOp b) { return a->isBeforeInBlock(b); });
  if (match.quantizeInput) {
    QuantizedInput input;
    if (!traceInput(linears, input))
      return false;
    if (input.quantize != match.quantizeInput)
      return refuse(RefusalKind::InputNotQuantizedHere, linears.front());
    match.qdq = bool(input.dequantize);
  } else if (match.measureInput) {
    QuantizedInput input;
    if (!traceInput(linears, input))
      return false;
  } else {
    noteStoredWeights(linears);
  }
  if (!checkBiases(linears))
    return false;
  absorbResidual(norm);
  add(ChainMember::Residual, match.residual);
  add(ChainMember::Norm, norm);
  add(ChainMember::QuantizeInput, match.quantizeInput);
  add(ChainMember::QuantizeInput, match.measureInput);
  if (match.qdq)
    add(ChainMember::DequantizeInput, dequantize);
  for (LinearOp linear : linears)
    addLinear(ChainMember::DequantizeWeight, ChainMember::Linear, linear);
  return noteExtras();
}

bool FamilyMatcher::matchNormQuantize(Operation *norm) {
  match.family = KernelFamily::NormQuantize;
  match.norm = norm;
  match.quantizeInput = getFirstQuantize(norm->getResult(0), matcher);
  if (!match.quantizeInput)
    return refuse(RefusalKind::NoConsumer, norm);
  absorbResidual(norm);
  add(ChainMember::Residual, match.residual);
  add(ChainMember::Norm, norm);
  add(ChainMember::QuantizeInput, match.quantizeInput);
  return noteExtras();
}

bool FamilyMatcher::matchLinear(LinearOp linear) {
  match.family = KernelFamily::FusedLinear;
  QuantizedInput input;
  if (!traceInput({linear}, input))
    return false;
  match.quantizeInput = input.quantize;
  match.qdq = bool(input.dequantize);
  match.measureInput = input.measure;
  if (input.measure)
    match.quant = input.measure.getQuantAttr();
  absorbTail(linear);
  if (!input.quantize && !input.measure) {
    if (!match.thenAdd)
      return refuse(RefusalKind::NoConsumer, linear);
    noteStoredWeights({linear});
  }
  if (!checkBiases({linear}))
    return false;
  add(ChainMember::QuantizeInput, input.quantize);
  add(ChainMember::QuantizeInput, input.measure);
  add(ChainMember::DequantizeInput, input.dequantize);
  addLinear(ChainMember::DequantizeWeight, ChainMember::Linear, linear);
  add(ChainMember::ThenAdd, match.thenAdd);
  return noteExtras();
}

//===----------------------------------------------------------------------===//
// ChainMatcher
//===----------------------------------------------------------------------===//

std::optional<std::pair<Operation *, Refusal>>
ChainMatcher::refuseUnknown(LinearOp down) const {
  Between between = traceToLinears(down.getX());
  if (!between.hasLinear || between.hasActivation || !between.last)
    return std::nullopt;
  RefusalKind kind = isa<GatedMulOp>(between.last)
                         ? RefusalKind::NoActivation
                         : RefusalKind::UnknownActivation;
  return std::pair(between.last, Refusal(kind, between.last));
}

void ChainMatcher::claim(const ChainMatch &match) {
  for (const ChainMatch::Member &member : match.members)
    claimed.insert(member.op);
}

/// Tries a family. If a user of a result precedes the operands, tries again
/// without the residual add before the norm.
static MatchOrRefusal
tryFamily(const ChainMatcher &matcher,
          llvm::function_ref<bool(FamilyMatcher &)> matchFamily) {
  FamilyMatcher whole(matcher, /*withResidual=*/true);
  if (matchFamily(whole))
    return whole.take();
  if (whole.getRefusal().kind != RefusalKind::ResultUsedBeforeOperands)
    return whole.getRefusal();
  FamilyMatcher partial(matcher, /*withResidual=*/false);
  if (!matchFamily(partial))
    return whole.getRefusal();
  ChainMatch match = partial.take();
  match.limit = whole.getRefusal();
  return match;
}

/// Tries a family, and a smaller one if the larger one is refused. If both are
/// refused, the refusal of the larger one is reported.
static MatchOrRefusal
tryFamilies(const ChainMatcher &matcher,
            llvm::function_ref<bool(FamilyMatcher &)> large,
            llvm::function_ref<bool(FamilyMatcher &)> small) {
  MatchOrRefusal first = tryFamily(matcher, large);
  if (std::holds_alternative<ChainMatch>(first))
    return first;
  MatchOrRefusal second = tryFamily(matcher, small);
  if (std::holds_alternative<Refusal>(second))
    return first;
  std::get<ChainMatch>(second).limit = std::get<Refusal>(first);
  return second;
}

MatchOrRefusal ChainMatcher::matchAt(ActivationOp activation) {
  return tryFamilies(
      *this, [&](FamilyMatcher &chain) { return chain.matchMLP(activation); },
      [&](FamilyMatcher &chain) { return chain.matchActQuantize(activation); });
}

MatchOrRefusal ChainMatcher::matchNorm(Operation *norm) {
  return tryFamilies(
      *this, [&](FamilyMatcher &chain) { return chain.matchNormLinear(norm); },
      [&](FamilyMatcher &chain) { return chain.matchNormQuantize(norm); });
}

std::optional<ChainMatch> ChainMatcher::matchAt(LinearOp linear) {
  FamilyMatcher chain(*this, /*withResidual=*/false);
  if (isClaimed(linear) || !chain.matchLinear(linear))
    return std::nullopt;
  return chain.take();
}
