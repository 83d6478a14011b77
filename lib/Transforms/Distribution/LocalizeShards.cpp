//===- LocalizeShards.cpp - Tensors of one rank ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only arguments state how they are cut. Each op follows from its operands, in
// program order: a value is whole on every rank, or cut in one dimension. A
// partial sum never leaves the op that computes it without its reduction.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fuse {
#define GEN_PASS_DEF_LOCALIZESHARDSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// "whole" or "cut in dimension 1", for messages.
static std::string describe(ShardAttr shard) {
  if (!shard)
    return "whole";
  return ("cut in dimension " + Twine(shard.getDim())).str();
}

namespace {

class Localizer {
public:
  Localizer(func::FuncOp function, int64_t size)
      : function(function), size(size) {}

  FailureOr<LocalizedCounts> run();

private:
  LogicalResult cutArguments();
  LogicalResult localize(Operation *op);

  // Rules of ops.
  LogicalResult visit(LinearOp op);
  LogicalResult visit(DynamicQuantizeOp op);
  LogicalResult visit(NormLinearOp op);
  LogicalResult visit(FusedLinearOp op);
  LogicalResult visit(tensor::ExtractSliceOp op);
  LogicalResult visit(tensor::ExpandShapeOp op);
  LogicalResult visit(tensor::CollapseShapeOp op);
  LogicalResult visit(linalg::TransposeOp op);
  LogicalResult visit(func::ReturnOp op);
  template <typename OpTy>
  LogicalResult visitMLP(OpTy op, ValueRange gate);
  /// Verifies that the operands of `[residual_add] [norm]` are whole.
  template <typename OpTy>
  LogicalResult expectWholeHead(OpTy op);
  /// An op on elements: operands and results are cut alike.
  LogicalResult visitElements(Operation *op);
  /// A quantize or dequantize op, with one scale per index of dimension 0.
  template <typename OpTy>
  LogicalResult visitQuantization(OpTy op, Value x);

  ShardAttr get(Value value) const {
    return value ? shards.lookup(value) : ShardAttr();
  }
  /// Records how `value` is cut and gives it the type of a part.
  LogicalResult set(Value value, ShardAttr shard);
  /// The shard in dimension `dim`.
  ShardAttr cut(int64_t dim, int64_t pieces = 1) const {
    return ShardAttr::get(axis.getContext(), dim, axis, count, pieces);
  }
  ShardAttr cutFeatures(Value value) const {
    return cut(getTensor(value).getRank() - 1);
  }
  /// Verifies how an operand is cut.
  LogicalResult expect(Operation *op, StringRef name, Value value,
                       ShardAttr shard);
  /// Verifies the weight of a linear with its bias and scales. The weight is
  /// cut in `dim`, or whole if that is negative.
  LogicalResult expectWeight(Operation *op, StringRef name, Value weight,
                             int64_t dim, Value bias, Value scale,
                             QuantAttr quant);
  /// Inserts the sum of `partial` over the ranks after it.
  Value reduce(OpBuilder &builder, Location loc, Value partial, Value bias,
               BiasPlace place, Type element);

  func::FuncOp function;
  int64_t size;
  StringAttr axis;
  int64_t count = 0;
  DenseMap<Value, ShardAttr> shards;
  LocalizedCounts counts;
};

} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

LogicalResult Localizer::set(Value value, ShardAttr shard) {
  if (!shard)
    return success();
  FailureOr<RankedTensorType> type = shard.getLocalType(
      getTensor(value), [&] { return emitError(value.getLoc()); });
  if (failed(type))
    return failure();
  value.setType(*type);
  shards[value] = shard;
  return success();
}

LogicalResult Localizer::cutArguments() {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto shard = function.getArgAttrOfType<ShardAttr>(index, kShardAttrName);
    if (!shard)
      continue;
    auto fail = [&] {
      return function.emitError() << "argument " << index << " ";
    };
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return fail() << "is cut but is a " << argument.getType()
                    << "; expected a ranked tensor";
    if (!axis) {
      axis = shard.getAxis();
      count = shard.getCount();
    }
    if (shard.getAxis() != axis || shard.getCount() != count)
      return fail() << "is cut for " << shard.getCount()
                    << " ranks along axis '" << shard.getAxis().getValue()
                    << "', an argument before it for " << count
                    << " along axis '" << axis.getValue() << "'";
    if (size && count != size)
      return fail() << "is cut for " << count << " ranks, expected " << size;
    FailureOr<RankedTensorType> local = shard.getLocalType(type, fail);
    if (failed(local))
      return failure();
    argument.setType(*local);
    shards[argument] = shard;
    ++counts.arguments;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

LogicalResult Localizer::expect(Operation *op, StringRef name, Value value,
                                ShardAttr shard) {
  if (!value || get(value) == shard)
    return success();
  return op->emitOpError() << "operand '" << name << "' is "
                           << describe(get(value)) << ", expected one that is "
                           << describe(shard);
}

LogicalResult Localizer::expectWeight(Operation *op, StringRef name,
                                      Value weight, int64_t dim, Value bias,
                                      Value scale, QuantAttr quant) {
  if (failed(expect(op, name, weight, dim < 0 ? ShardAttr() : cut(dim))))
    return failure();
  ShardAttr perOutput = dim == 0 ? cut(0) : ShardAttr();
  // The bias of a rowwise linear is whole.
  if (failed(expect(op, (name + " bias").str(), bias, perOutput)))
    return failure();
  bool isBlock =
      quant && quant.getWeights() == ScaleGranularity::Block && dim >= 0;
  if (!isBlock)
    return expect(op, (name + " scale").str(), scale, perOutput);
  int64_t block = dim == 0 ? quant.getBlockRows() : quant.getBlockColumns();
  int64_t local = getTensor(weight).getDimSize(dim);
  // A byte has two codes of 4 bits.
  if (dim == 1 && quant.isPacked())
    local *= 2;
  if (local % block != 0)
    return op->emitOpError()
           << "a part of '" << name << "' has " << local
           << (dim == 0 ? " rows" : " columns") << ", which cuts a block of "
           << block << " with one scale";
  return expect(op, (name + " scale").str(), scale, cut(dim));
}

Value Localizer::reduce(OpBuilder &builder, Location loc, Value partial,
                        Value bias, BiasPlace place, Type element) {
  ++counts.reductions;
  return AllReduceOp::create(
      builder, loc, withElementType(partial.getType(), element), partial, bias,
      axis, builder.getI64IntegerAttr(count),
      BiasPlaceAttr::get(builder.getContext(), place));
}

LogicalResult Localizer::visit(LinearOp op) {
  ShardAttr weight = get(op.getWeight());
  Value x = op.getX();
  bool isRowwise = weight && weight.getDim() == 1;
  int64_t dim = weight ? weight.getDim() : -1;
  if (failed(expect(op, "x", x, isRowwise ? cutFeatures(x) : ShardAttr())) ||
      failed(expectWeight(op, "weight", op.getWeight(), dim, op.getBias(),
                          op.getChannelScale(), op.getQuantAttr())))
    return failure();
  // Scales of groups are cut like the features, and others belong to tokens.
  if (Value scale = op.getDynamicScale()) {
    bool isPerGroup = op.getQuantAttr() && op.getQuantAttr().getActivations() ==
                                               ScaleScope::PerGroup;
    if (failed(
            expect(op, "dynamic_scale", scale,
                   isRowwise && isPerGroup ? cutFeatures(scale) : ShardAttr())))
      return failure();
  }
  if (!isRowwise)
    return set(op.getY(), weight ? cutFeatures(op.getY()) : ShardAttr());
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Type element = op.getType().getElementType();
  op.getY().setType(withElementType(op.getType(), builder.getF32Type()));
  Value sum = reduce(builder, op.getLoc(), op.getY(), op.getBias(),
                     op.getBiasPlace(), element);
  op.getBiasMutable().clear();
  op.setBiasPlace(BiasPlace::BeforeRounding);
  op.getY().replaceAllUsesExcept(sum, sum.getDefiningOp());
  return success();
}

LogicalResult Localizer::visitElements(Operation *op) {
  ShardAttr shard = get(op->getOperand(0));
  if (shard && shard.getDim() != getTensor(op->getOperand(0)).getRank() - 1)
    return op->emitOpError() << "reads a tensor that is " << describe(shard)
                             << "; expected one that is cut in its features";
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (failed(expect(op, std::to_string(index), operand, shard)))
      return failure();
  for (Value result : op->getResults())
    if (failed(set(result, shard)))
      return failure();
  return success();
}

template <typename OpTy>
LogicalResult Localizer::visitQuantization(OpTy op, Value x) {
  ShardAttr shard = get(x);
  bool isPerIndex = shard && shard.getDim() == 0;
  if (failed(expect(op, "channel_scale", op.getChannelScale(),
                    isPerIndex ? cut(0) : ShardAttr())))
    return failure();
  return set(op->getResult(0), shard);
}

LogicalResult Localizer::visit(DynamicQuantizeOp op) {
  ShardAttr shard = cutFeatures(op.getX());
  if (failed(expect(op, "x", op.getX(), shard)))
    return failure();
  if (op.getScope() == ScaleScope::PerTensor)
    return op.emitOpError("measures one scale for a tensor that is cut; "
                          "expected per_token or per_group");
  if (op.getScope() == ScaleScope::PerGroup) {
    int64_t features = getTensor(op.getX()).getShape().back();
    int64_t group = op.getQuantAttr().getGroupSize();
    if (features % group != 0)
      return op.emitOpError() << "a part has " << features
                              << " features, which cuts a group of " << group;
    if (failed(set(op.getScale(), cutFeatures(op.getScale()))))
      return failure();
  }
  return set(op.getQ(), shard);
}

/// The scales of weight `name`, the next operand of `channel_scales` if they
/// are operands.
template <typename OpTy>
static Value takeScale(OpTy op, ScaleName name, unsigned &next) {
  StaticScalesAttr scales = op.getScalesAttr();
  if (getQuantOf(op) || (scales && scales.isPerChannel(name)))
    return op.getChannelScales()[next++];
  return {};
}

template <typename OpTy>
LogicalResult Localizer::expectWholeHead(OpTy op) {
  return failure(failed(expect(op, "x", op.getX(), {})) ||
                 failed(expect(op, "residual", op.getResidual(), {})) ||
                 failed(expect(op, "norm weight", op.getNormWeight(), {})) ||
                 failed(expect(op, "norm bias", op.getNormBias(), {})));
}

LogicalResult Localizer::visit(NormLinearOp op) {
  if (failed(expectWholeHead(op)))
    return failure();
  unsigned nextScale = 0, nextBias = 0;
  for (auto [index, weight] : llvm::enumerate(op.getWeights())) {
    Value bias;
    if (op.getBiasMask()[index])
      bias = op.getBiases()[nextBias++];
    int64_t dim = get(weight) ? 0 : -1;
    if (failed(expectWeight(op, ("weight" + Twine(index)).str(), weight, dim,
                            bias,
                            takeScale(op, ScaleName::weight(index), nextScale),
                            op.getQuantAttr())))
      return failure();
    Value result = op.getOutputs()[index];
    if (dim == 0 && failed(set(result, cutFeatures(result))))
      return failure();
  }
  return success();
}

/// The part of a rank may be a single linear, which is no fused op.
LogicalResult Localizer::visit(FusedLinearOp op) {
  OpBuilder builder(op);
  Decomposition chain = op.decompose(builder);
  op->replaceAllUsesWith(chain.results);
  op->erase();
  for (Operation *member : chain.members)
    if (failed(localize(member)))
      return failure();
  return success();
}

/// `gate` is empty in a dense MLP, or the gate and its optional bias.
template <typename OpTy>
LogicalResult Localizer::visitMLP(OpTy op, ValueRange gate) {
  unsigned nextScale = 0;
  QuantAttr quant = op.getQuantAttr();
  if (failed(expectWholeHead(op)) ||
      failed(expect(op, "then_add", op.getOutputResidual(), {})))
    return failure();
  if (!gate.empty() &&
      failed(expectWeight(op, "gate", gate[0], 0,
                          gate.size() > 1 ? gate[1] : Value(),
                          takeScale(op, ScaleKind::Gate, nextScale), quant)))
    return failure();
  if (failed(expectWeight(op, "up", op.getUp(), 0, op.getUpBias(),
                          takeScale(op, ScaleKind::Up, nextScale), quant)) ||
      failed(expectWeight(op, "down", op.getDown(), 1, op.getDownBias(),
                          takeScale(op, ScaleKind::Down, nextScale), quant)))
    return failure();
  if (quant && quant.getActivations() == ScaleScope::PerGroup &&
      getTensor(op.getDown()).getDimSize(1) % quant.getGroupSize() != 0)
    return op.emitOpError()
           << "a part has " << getTensor(op.getDown()).getDimSize(1)
           << " hidden units, which cuts a group of " << quant.getGroupSize();

  // The end of the chain moves after the sum.
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  RoundingAttr rounding = op.getRounding();
  Value result = op.getOutputs()[0], bias = op.getDownBias();
  Value other = op.getOutputResidual();
  Type resultType = result.getType();
  Type element = getTensor(result).getElementType();
  bool adds = other || op.getAddStream();
  bool isCommuted = op.getProvenanceAttr() &&
                    op.getProvenanceAttr().isCommuted(ChainMember::ThenAdd);
  SmallVector<Type> types(op->getResultTypes());
  types[0] = withElementType(resultType, builder.getF32Type());
  ArrayAttr extras = op.getExtrasAttr();
  if (op.getAddStream() && !extras) {
    extras = builder.getArrayAttr(
        RoundingPointAttr::get(builder.getContext(), RoundingPoint::Stream));
    types.push_back(withElementType(
        op.getX().getType(),
        rounding.getTypeOf(RoundingPoint::Stream,
                           op.getX().getType().getElementType())));
  }
  if (adds)
    element = rounding.skips(RoundingPoint::Down)
                  ? Type(builder.getF32Type())
                  : rounding.getTypeOf(RoundingPoint::Down,
                                       op.getX().getType().getElementType());

  auto local = cast<OpTy>(builder.clone(*op));
  local.getDownBiasMutable().clear();
  local.getOutputResidualMutable().clear();
  local.setAddStream(false);
  local.setExtrasAttr(extras);
  local.setProvenanceAttr({});
  // The contract of the part has no member after down.
  SmallVector<RoundingPoint> skip(rounding.getSkip());
  llvm::erase(skip, RoundingPoint::Down);
  SmallVector<RoundedType> rounded(rounding.getTypes());
  llvm::erase_if(rounded, [](RoundedType entry) {
    return entry.first == RoundingPoint::Down;
  });
  bool hasBias = op.getUpBias() || gate.size() > 1;
  local.setRoundingAttr(RoundingAttr::get(
      builder.getContext(), rounding.getMode(), skip, rounded,
      hasBias ? rounding.getBiasPlace() : BiasPlace::BeforeRounding));
  OperationState state(op.getLoc(), op->getName(), local->getOperands(), types,
                       local->getAttrDictionary().getValue());
  builder.setInsertionPointAfter(local);
  Operation *part = builder.create(state);
  local->erase();

  Value y = reduce(builder, op.getLoc(), part->getResult(0), bias,
                   rounding.getBiasPlace(), element);
  if (adds) {
    Value lhs = other ? other : part->getResult(1), rhs = y;
    if (isCommuted)
      std::swap(lhs, rhs);
    y = ResidualAddOp::create(builder, op.getLoc(), resultType, lhs, rhs);
  }
  result.replaceAllUsesWith(y);
  for (auto [old, now] : llvm::zip(op->getResults().drop_front(),
                                   part->getResults().drop_front()))
    old.replaceAllUsesWith(now);
  op->erase();
  return success();
}

LogicalResult Localizer::visit(tensor::ExtractSliceOp op) {
  ShardAttr shard = get(op.getSource());
  int64_t dim = shard.getDim();
  auto divide = [&](ArrayRef<int64_t> values, int64_t &value) {
    value = values[dim];
    if (ShapedType::isDynamic(value) || value % count != 0)
      return false;
    value /= count;
    return true;
  };
  int64_t offset = op.getStaticOffsets()[dim], length;
  int64_t stride = op.getStaticStrides()[dim];
  // Every `stride`-th row of all is every `stride`-th row of each part.
  bool isEvery = stride > 1 && offset < stride &&
                 op.getStaticSizes()[dim] * stride ==
                     getTensor(op.getSource()).getDimSize(dim) * count;
  if (op.getType().getRank() != op.getSourceType().getRank() ||
      (!isEvery && (stride != 1 || !divide(op.getStaticOffsets(), offset))) ||
      !divide(op.getStaticSizes(), length))
    return op.emitOpError()
           << "takes a slice that is not the same part of each rank";
  SmallVector<int64_t> offsets(op.getStaticOffsets()),
      sizes(op.getStaticSizes());
  offsets[dim] = offset;
  sizes[dim] = length;
  op.setStaticOffsets(offsets);
  op.setStaticSizes(sizes);
  return set(op.getResult(), cut(dim));
}

LogicalResult Localizer::visit(tensor::ExpandShapeOp op) {
  ShardAttr shard = get(op.getSrc());
  // Ranks have consecutive indices of the first of the new dimensions.
  int64_t dim = op.getReassociationIndices()[shard.getDim()].front();
  if (shard.getPieces() != 1)
    return op.emitOpError("expands a dimension that is cut in several pieces");
  if (failed(set(op.getResult(), cut(dim))))
    return failure();
  op.setStaticOutputShape(op.getResultType().getShape());
  return success();
}

LogicalResult Localizer::visit(tensor::CollapseShapeOp op) {
  ShardAttr shard = get(op.getSrc());
  for (auto [dim, group] : llvm::enumerate(op.getReassociationIndices())) {
    int64_t pieces = shard.getPieces();
    for (int64_t index : group) {
      if (index == shard.getDim())
        return set(op.getResult(), cut(dim, pieces));
      pieces *= op.getSrcType().getDimSize(index);
    }
  }
  return op.emitOpError("does not keep the dimension that is cut");
}

LogicalResult Localizer::visit(linalg::TransposeOp op) {
  ShardAttr shard = get(op.getInput());
  if (!shard || op->getNumResults() != 1)
    return op.emitOpError("writes a tensor that is cut");
  auto place = llvm::find(op.getPermutation(), shard.getDim());
  int64_t dim = place - op.getPermutation().begin();
  ShardAttr result = cut(dim, shard.getPieces());
  auto init = op.getInit().getDefiningOp<tensor::EmptyOp>();
  if (!init || !init->hasOneUse() || !init.getDynamicSizes().empty())
    return op.emitOpError("transposes a tensor that is cut into one that is "
                          "not a tensor.empty of its own");
  if (failed(set(init.getResult(), result)))
    return failure();
  return set(op->getResult(0), result);
}

LogicalResult Localizer::visit(func::ReturnOp op) {
  for (auto [index, value] : llvm::enumerate(op.getOperands()))
    if (ShardAttr shard = get(value))
      function.setResultAttr(index, kShardAttrName, shard);
  return success();
}

LogicalResult Localizer::localize(Operation *op) {
  for (Region &region : op->getRegions()) {
    WalkResult walk = region.walk([&](Operation *inner) {
      return llvm::any_of(inner->getOperands(),
                          [&](Value value) { return bool(get(value)); })
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return op->emitOpError("has a region that reads a tensor that is cut");
  }
  if (llvm::none_of(op->getOperands(),
                    [&](Value value) { return bool(get(value)); }))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LinearOp, DynamicQuantizeOp, NormLinearOp, FusedLinearOp,
            tensor::ExtractSliceOp, tensor::ExpandShapeOp,
            tensor::CollapseShapeOp, linalg::TransposeOp, func::ReturnOp>(
          [&](auto layer) { return visit(layer); })
      .Case<ActivationOp, GatedMulOp, ResidualAddOp, ActQuantizeOp>(
          [&](Operation *layer) { return visitElements(layer); })
      .Case([&](QuantizeOp layer) {
        return visitQuantization(layer, layer.getX());
      })
      .Case([&](DequantizeOp layer) {
        return visitQuantization(layer, layer.getQ());
      })
      .Case([&](GatedMLPOp mlp) {
        SmallVector<Value> gate = {mlp.getGate()};
        if (mlp.getGateBias())
          gate.push_back(mlp.getGateBias());
        return visitMLP(mlp, gate);
      })
      .Case([&](MLPOp mlp) { return visitMLP(mlp, {}); })
      .Default([](Operation *other) {
        return other->emitOpError("has no rule for a tensor that is cut");
      });
}

FailureOr<LocalizedCounts> Localizer::run() {
  if (function.isExternal())
    return counts;
  if (function->hasAttr(kRanksAttrName))
    return function.emitError() << "has the types of one rank already";
  if (failed(cutArguments()))
    return failure();
  if (!axis)
    return counts;
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << "has " << function.getBody().getBlocks().size()
           << " blocks; expected one";
  Block &body = function.front();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (failed(localize(&op)))
      return failure();
  Builder builder(function.getContext());
  function.setFunctionType(builder.getFunctionType(
      body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  function->setAttr(kRanksAttrName, builder.getI64IntegerAttr(count));
  return counts;
}

FailureOr<LocalizedCounts> fuse::localizeShards(func::FuncOp function,
                                                int64_t size) {
  return Localizer(function, size).run();
}

namespace {

struct LocalizeShards : fuse::impl::LocalizeShardsPassBase<LocalizeShards> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<LocalizedCounts> counts = localizeShards(getOperation(), size);
    if (failed(counts))
      return signalPassFailure();
    numCut += counts->arguments;
    numReductions += counts->reductions;
  }
};

} // namespace
