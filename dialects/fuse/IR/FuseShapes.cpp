//===- FuseShapes.cpp - Shapes of layers and fused ops --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The features of every tensor are static. The tokens, all other dimensions,
// are those of the first operand, so one rule serves all ops. Types of operands
// and results may still differ: a size that is static in one of them may be
// dynamic in another. Forming kernels compares types, so the canonicalizer
// makes a size that is known anywhere static everywhere, and removes the casts
// in between.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseShapes.h"
#include "fuse/IR/FuseVerify.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// TokenOpInterface
//===----------------------------------------------------------------------===//

SmallVector<OpOperand *> LinearOp::getTokenOperands() {
  SmallVector<OpOperand *> operands = {&getXMutable()};
  // A scale for all tokens is a vector of one element.
  for (OpOperand &scale : getDynamicScaleMutable()) {
    Value value = scale.get();
    if (auto cast = value.getDefiningOp<tensor::CastOp>())
      value = cast.getSource();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    bool isPerGroup = getQuantAttr() &&
                      getQuantAttr().getActivations() == ScaleScope::PerGroup;
    if (type &&
        type.getRank() == getX().getType().getRank() - (isPerGroup ? 0 : 1) &&
        type.getShape() != ArrayRef<int64_t>(1))
      operands.push_back(&scale);
  }
  return operands;
}

SmallVector<OpOperand *> GatedMulOp::getTokenOperands() {
  return {&getLhsMutable(), &getRhsMutable()};
}

SmallVector<OpOperand *> ResidualAddOp::getTokenOperands() {
  return {&getLhsMutable(), &getRhsMutable()};
}

SmallVector<OpResult> DynamicQuantizeOp::getTokenResults() {
  SmallVector<OpResult> results = {cast<OpResult>(getQ())};
  if (getScope() != ScaleScope::PerTensor)
    results.push_back(cast<OpResult>(getScale()));
  return results;
}

SmallVector<OpOperand *> CrossEntropyOp::getTokenOperands() {
  return {&getLogitsMutable(), &getLabelsMutable()};
}

SmallVector<OpResult> CrossEntropyOp::getTokenResults() { return {}; }

SmallVector<OpOperand *> MoEExpertsOp::getTokenOperands() {
  return {&getXMutable(), &getIndexMutable(), &getWeightsMutable()};
}

/// The operands of `[residual_add] ... [residual_add]` of a fused op.
static SmallVector<OpOperand *> toList(OpOperand &x,
                                       ArrayRef<MutableOperandRange> others) {
  SmallVector<OpOperand *> operands = {&x};
  for (MutableOperandRange group : others)
    for (OpOperand &operand : group)
      operands.push_back(&operand);
  return operands;
}

SmallVector<OpOperand *> GatedMLPOp::getTokenOperands() {
  return toList(getXMutable(),
                {getResidualMutable(), getOutputResidualMutable()});
}

SmallVector<OpOperand *> MLPOp::getTokenOperands() {
  return toList(getXMutable(),
                {getResidualMutable(), getOutputResidualMutable()});
}

SmallVector<OpOperand *> NormLinearOp::getTokenOperands() {
  return toList(getXMutable(), {getResidualMutable()});
}

SmallVector<OpOperand *> FusedLinearOp::getTokenOperands() {
  return toList(getXMutable(), {getOutputResidualMutable()});
}

SmallVector<OpOperand *> NormQuantizeOp::getTokenOperands() {
  return toList(getXMutable(), {getResidualMutable()});
}

SmallVector<OpOperand *> ActQuantizeOp::getTokenOperands() {
  return toList(getXMutable(), {getFactorMutable()});
}

//===----------------------------------------------------------------------===//
// Sizes of results
//===----------------------------------------------------------------------===//

/// A value outside of a group whose dimension `dim` has the size of that of
/// `value`, or null. `value` may be in the body of the group.
static Value findSource(Value value, int64_t dim, GroupOp group) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getOwner() == &group.getBody().front()
                 ? Value(group.getInputs()[argument.getArgNumber()])
                 : Value();
    auto op = value.getDefiningOp<TokenOpInterface>();
    if (!op || dim >= op.getNumTokenDims() ||
        !llvm::is_contained(op.getTokenResults(), value))
      return {};
    value = op->getOperand(0);
  }
}

FailureOr<OpFoldResult> fuse::reifyDim(OpResult result, OpBuilder &builder,
                                       int64_t dim) {
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (!type || dim < 0 || dim >= type.getRank())
    return failure();
  if (!type.isDynamicDim(dim))
    return OpFoldResult(builder.getIndexAttr(type.getDimSize(dim)));
  // Only tokens can be dynamic.
  Operation *op = result.getOwner();
  Value source;
  if (auto group = dyn_cast<GroupOp>(op))
    source = findSource(group.getBody().front().getTerminator()->getOperand(
                            result.getResultNumber()),
                        dim, group);
  else
    source = op->getOperand(0);
  if (!source)
    return failure();
  return tensor::getMixedSize(builder, op->getLoc(), source, dim);
}

LogicalResult fuse::reifyShapes(Operation *op, OpBuilder &builder,
                                ReifiedRankedShapedTypeDims &shapes) {
  for (OpResult result : op->getResults()) {
    SmallVector<OpFoldResult> &sizes = shapes.emplace_back();
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        sizes.push_back(
            reifyDim(result, builder, dim).value_or(OpFoldResult()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Types of results
//===----------------------------------------------------------------------===//

/// The shape of a tensor with features, or nothing.
static std::optional<SmallVector<int64_t>> getShape(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() == 0)
    return std::nullopt;
  return llvm::to_vector(type.getShape());
}

LogicalResult fuse::inferShapeOfFirst(ValueRange operands, Shapes &shapes) {
  auto shape = operands.empty() ? std::nullopt : getShape(operands.front());
  if (!shape)
    return failure();
  shapes.emplace_back(*shape);
  return success();
}

LogicalResult fuse::inferShapes(LinearOp::Adaptor op, Shapes &shapes) {
  auto x = getShape(op.getX()), weight = getShape(op.getWeight());
  if (!x || !weight)
    return failure();
  x->back() = weight->front();
  shapes.emplace_back(*x);
  return success();
}

LogicalResult fuse::inferShapes(DynamicQuantizeOp::Adaptor op, Shapes &shapes) {
  auto x = getShape(op.getX());
  if (!x)
    return failure();
  shapes.emplace_back(*x);
  QuantAttr quant = op.getQuantAttr();
  if (op.getScope() == ScaleScope::PerGroup) {
    if (!quant || quant.getActivations() != ScaleScope::PerGroup)
      return failure();
    shapes.emplace_back(quant.getInputScaleShape(*x));
  } else if (op.getScope() == ScaleScope::PerTensor)
    shapes.emplace_back(ArrayRef<int64_t>(1));
  else
    shapes.emplace_back(ArrayRef<int64_t>(*x).drop_back());
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *context,
                                               std::optional<Location>, Adaptor,
                                               SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

//===----------------------------------------------------------------------===//
// Canonicalization
//===----------------------------------------------------------------------===//

/// The source of a cast of ranked tensors, or null.
static Value getCastSource(Value value) {
  auto cast = value.getDefiningOp<tensor::CastOp>();
  return cast && isa<RankedTensorType>(cast.getSource().getType())
             ? cast.getSource()
             : Value();
}

/// Adds the static sizes of a type to `tokens`. Returns false if two static
/// sizes differ.
static bool join(MutableArrayRef<int64_t> tokens, Type type) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  if (shape.size() < tokens.size())
    return false;
  for (auto [size, known] : llvm::zip(shape, tokens)) {
    if (ShapedType::isDynamic(size))
      continue;
    if (!ShapedType::isDynamic(known) && known != size)
      return false;
    known = size;
  }
  return true;
}

/// Joins the sizes of the operands and results of `op`, and of values that are
/// casts of them. Returns false if two static sizes differ.
static bool joinAll(TokenOpInterface op, MutableArrayRef<int64_t> tokens) {
  for (OpOperand *operand : op.getTokenOperands()) {
    Value source = getCastSource(operand->get());
    if (!join(tokens, operand->get().getType()) ||
        (source && !join(tokens, source.getType())))
      return false;
  }
  for (OpResult result : op.getTokenResults()) {
    if (!join(tokens, result.getType()))
      return false;
    // A cast in another block need not be executed.
    for (Operation *user : result.getUsers())
      if (isa<tensor::CastOp>(user) && user->getBlock() == op->getBlock() &&
          isa<RankedTensorType>(user->getResult(0).getType()) &&
          !join(tokens, user->getResult(0).getType()))
        return false;
  }
  return true;
}

/// The type of a token operand or result, with the sizes `tokens`.
static RankedTensorType refine(Type type, ArrayRef<int64_t> tokens) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  llvm::copy(tokens, shape.begin());
  return tensor.clone(shape);
}

/// Makes a number of tokens that is static in the type of an operand or result,
/// or next to a cast, static in all of them. Casts remain only where values of
/// other types enter or leave.
static LogicalResult refineTokens(TokenOpInterface op,
                                  PatternRewriter &rewriter) {
  SmallVector<int64_t> tokens(op.getNumTokenDims(), ShapedType::kDynamic);
  if (!joinAll(op, tokens))
    return failure();
  SmallVector<OpOperand *> operands = op.getTokenOperands();
  SmallVector<OpResult> results = op.getTokenResults();
  SmallVector<Value> values(results.begin(), results.end());
  for (OpOperand *operand : operands)
    values.push_back(operand->get());
  bool isRefined = true;
  for (Value value : values) {
    RankedTensorType type = refine(value.getType(), tokens);
    isRefined &= type == value.getType();
    // The verifier refuses such a type. The tokens of another operand show
    // that the op has undefined behavior.
    if (!isAddressable(type))
      return failure();
  }
  if (isRefined)
    return failure();

  Location loc = op->getLoc();
  rewriter.setInsertionPoint(op);
  rewriter.modifyOpInPlace(op, [&] {
    for (OpOperand *operand : operands) {
      Value value = operand->get();
      Type type = refine(value.getType(), tokens);
      if (type == value.getType())
        continue;
      Value source = getCastSource(value);
      operand->set(source && source.getType() == type
                       ? source
                       : tensor::CastOp::create(rewriter, loc, type, value));
    }
  });
  rewriter.setInsertionPointAfter(op);
  for (OpResult result : results) {
    Type old = result.getType(), type = refine(old, tokens);
    if (old == type)
      continue;
    rewriter.modifyOpInPlace(op, [&] { result.setType(type); });
    if (result.use_empty())
      continue;
    auto castOp = tensor::CastOp::create(rewriter, loc, old, result);
    rewriter.replaceAllUsesExcept(result, castOp, castOp);
  }
  return success();
}

namespace {

struct RefineTokens : OpInterfaceRewritePattern<TokenOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(TokenOpInterface op,
                                PatternRewriter &rewriter) const final {
    return refineTokens(op, rewriter);
  }
};

/// Refines the op before a cast. Refining an op inserts casts of its operands,
/// so this continues up a chain of any length.
struct RefineCastOfTokens : OpRewritePattern<tensor::CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::CastOp castOp,
                                PatternRewriter &rewriter) const final {
    auto op = castOp.getSource().getDefiningOp<TokenOpInterface>();
    return op ? refineTokens(op, rewriter) : failure();
  }
};

/// Drops the results of `also` that are not used, so that the kernel does not
/// write them.
struct DropUnusedExtras : OpInterfaceRewritePattern<FusedOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(FusedOpInterface op,
                                PatternRewriter &rewriter) const final {
    constexpr StringLiteral name = "extras";
    auto extras = op->getAttrOfType<ArrayAttr>(name);
    if (!extras)
      return failure();
    unsigned numOwn = op->getNumResults() - extras.size();
    SmallVector<Attribute> kept;
    SmallVector<Value> results(op->getResults().take_front(numOwn));
    for (auto [extra, result] :
         llvm::zip(extras, op->getResults().drop_front(numOwn)))
      if (!result.use_empty()) {
        kept.push_back(extra);
        results.push_back(result);
      }
    if (kept.size() == extras.size())
      return failure();
    NamedAttrList attributes(op->getAttrDictionary());
    if (kept.empty())
      attributes.erase(name);
    else
      attributes.set(name, rewriter.getArrayAttr(kept));
    OperationState state(op->getLoc(), op->getName(), op->getOperands(),
                         ValueRange(results).getTypes(), attributes);
    Operation *smaller = rewriter.create(state);
    for (auto [old, result] : llvm::zip(results, smaller->getResults()))
      rewriter.replaceAllUsesWith(old, result);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fuse::populateShapePatterns(RewritePatternSet &patterns) {
  patterns.add<DropUnusedExtras, RefineCastOfTokens, RefineTokens>(
      patterns.getContext());
}
