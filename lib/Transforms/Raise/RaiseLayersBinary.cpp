//===- RaiseLayersBinary.cpp - Recognize residual adds and gates ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every sum of two tensors could be a residual add. Only sums next to a layer
// are raised; other arithmetic stays in the dialects that optimize it.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fuse;

static bool isReshape(Operation *op) {
  return isa_and_nonnull<tensor::CastOp, tensor::CollapseShapeOp,
                         tensor::ExpandShapeOp>(op);
}

/// The layer op that computes `value`, looking through reshapes, or null.
static Operation *getLayer(Value value) {
  Operation *op = value.getDefiningOp();
  while (isReshape(op))
    op = op->getOperand(0).getDefiningOp();
  return op && isLayerOp(op) ? op : nullptr;
}

/// Whether a layer op that satisfies `predicate` reads `value` as a token
/// operand, looking through reshapes.
static bool feedsLayer(Value value, function_ref<bool(Operation *)> predicate) {
  SmallVector<Value> worklist{value};
  for (unsigned i = 0; i < worklist.size(); ++i)
    for (OpOperand &use : worklist[i].getUses()) {
      Operation *user = use.getOwner();
      if (use.getOperandNumber() < getNumTokenOperands(user) && predicate(user))
        return true;
      if (isReshape(user))
        worklist.push_back(user->getResult(0));
    }
  return false;
}

/// Adds a vector to a linear layer that has no bias yet.
static Value raiseBias(LayerRaiser &raiser, const LayerRoot &root,
                       const Expr *sum, const Expr *bias) {
  Value tensor = raiser.getTensor(root, sum);
  auto linear = tensor ? tensor.getDefiningOp<LinearOp>() : LinearOp();
  if (!linear || linear.getBias())
    return {};
  Value vector = raiser.getVector(root, bias, root.lastDim(), root.features());
  if (!vector)
    return {};
  auto refuse = [&](RefusalKind kind) {
    return raiser.refuse(root, root.expr, "linear", kind, root.expr);
  };
  BiasPlace place = BiasPlace::BeforeRounding;
  if (!getElementTypeOrSelf(tensor.getType()).isF32()) {
    if (getElementTypeOrSelf(tensor.getType()) != root.element())
      return refuse(RefusalKind::RaiseBiasAfterRounding);
    place = BiasPlace::AfterRounding;
  }
  if (!tensor.hasOneUse())
    return refuse(RefusalKind::RaiseOtherUse);
  return LinearOp::create(raiser.builder, root.loc(), root.type, linear.getX(),
                          linear.getWeight(), vector, linear.getChannelScale(),
                          linear.getDynamicScale(), linear.getInputScaleAttr(),
                          linear.getWeightScaleAttr(),
                          BiasPlaceAttr::get(root.op()->getContext(), place),
                          linear.getQuantAttr())
      .getY();
}

/// Whether only one operand has the shape of the root.
static bool isBroadcast(LayerRaiser &raiser, const LayerRoot &root,
                        const Expr *full, const Expr *other) {
  // Unit dimensions have no index, and nothing is repeated along them.
  auto isIndex = [](int index) { return index != kZeroIndex; };
  return raiser.getTensor(root, full) && !other->isConstant() &&
         other->kind == ExprKind::Leaf && !other->index.empty() &&
         !llvm::equal(llvm::make_filter_range(other->index, isIndex),
                      llvm::make_filter_range(root.index, isIndex));
}

static Value raiseAdd(LayerRaiser &raiser, const LayerRoot &root) {
  for (unsigned i : {0u, 1u}) {
    const Expr *full = root.body->operand(i);
    const Expr *other = root.body->operand(1 - i);
    if (Value linear = raiseBias(raiser, root, full, other))
      return linear;
    if (isBroadcast(raiser, root, full, other) &&
        getLayer(raiser.getTensor(root, full)))
      return raiser.refuse(root, root.expr, "residual_add",
                           RefusalKind::RaiseBroadcast, root.expr);
  }
  const Expr *left = root.body->operand(0), *right = root.body->operand(1);
  if (left->isConstant() || right->isConstant())
    return {};
  Value lhs = raiser.getTensor(root, left);
  Value rhs = raiser.getTensor(root, right);
  if (!lhs || !rhs ||
      (!getLayer(lhs) && !getLayer(rhs) && !feedsLayer(root.value, isLayerOp)))
    return {};
  return ResidualAddOp::create(raiser.builder, root.loc(), root.type, lhs, rhs)
      .getY();
}

static Value raiseProduct(LayerRaiser &raiser, const LayerRoot &root) {
  auto isActivation = [](Value value) {
    return value && isa_and_nonnull<ActivationOp>(getLayer(value));
  };
  Value operands[2];
  for (unsigned i : {0u, 1u})
    operands[i] = raiser.getTensor(root, root.body->operand(i));
  for (unsigned i : {0u, 1u})
    if (isActivation(operands[i]) &&
        isBroadcast(raiser, root, root.body->operand(i),
                    root.body->operand(1 - i)))
      return raiser.refuse(root, root.expr, "gated_mul",
                           RefusalKind::RaiseBroadcast, root.expr);
  if (!operands[0] || !operands[1] || root.body->operand(0)->isConstant() ||
      root.body->operand(1)->isConstant())
    return {};
  // Without an activation, a product between linear layers is a gate.
  auto isLinear = [](Value value) {
    return isa_and_nonnull<LinearOp>(getLayer(value));
  };
  bool isGate = isActivation(operands[0]) || isActivation(operands[1]) ||
                (isLinear(operands[0]) && isLinear(operands[1])) ||
                ((isLinear(operands[0]) || isLinear(operands[1])) &&
                 feedsLayer(root.value, [](Operation *user) {
                   return isa<LinearOp, QuantizeOp>(user);
                 }));
  if (!isGate)
    return {};
  return GatedMulOp::create(raiser.builder, root.loc(), root.type, operands[0],
                            operands[1])
      .getY();
}

Value fuse::raiseBinary(LayerRaiser &raiser, const LayerRoot &root) {
  if (ShapedType::isDynamic(root.features()))
    return {};
  if (root.body->kind == ExprKind::Add)
    return raiseAdd(raiser, root);
  if (root.body->kind == ExprKind::Mul)
    return raiseProduct(raiser, root);
  return {};
}
