//===- RaiseLayersCast.cpp - Merge casts into layers ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layer ops compute in f32 whatever their operand types are, and round once. A
// cast of an operand to f32 is therefore part of the layer. So is the rounding
// of an f32 result without other users.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fuse;

static bool isNarrow(Type type) { return type.isF16() || type.isBF16(); }

/// The tensor that `value` was widened from, or `value`.
static Value getNarrow(TensorExprs &exprs, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  const Expr *expr = type.getElementType().isF32() ? exprs.get(value) : nullptr;
  Value narrow =
      expr ? TensorExprs::findTensor(
                 expr, TensorExprs::getIdentity(type), type.getShape(),
                 [](Value tensor) {
                   return isNarrow(getElementTypeOrSelf(tensor));
                 })
           : Value();
  return narrow ? narrow : value;
}

Value fuse::raiseRounding(LayerRaiser &raiser, const LayerRoot &root) {
  if (root.body == root.expr || root.body->kind != ExprKind::Leaf ||
      !isNarrow(root.element()))
    return {};
  Value wide = raiser.getTensor(root, root.body);
  Operation *layer = wide ? wide.getDefiningOp() : nullptr;
  if (!layer || !isLayerOp(layer) || !wide.hasOneUse())
    return {};
  // With a narrow result, this linear would also round its sum before the bias.
  auto linear = dyn_cast<LinearOp>(layer);
  if (linear && linear.getBiasPlace() == BiasPlace::AfterRounding)
    return {};
  Operation *rounded = raiser.builder.clone(*layer);
  rounded->getResult(0).setType(root.type);
  return rounded->getResult(0);
}

bool fuse::absorbWideningCasts(RewriterBase &rewriter, Block &block) {
  auto layers = llvm::make_filter_range(
      block, [](Operation &op) { return isLayerOp(&op); });
  TensorExprs exprs;
  llvm::SmallPtrSet<Operation *, 8> maybeDead;
  bool changed = false;
  auto read = [&](OpOperand &operand, Value narrow) {
    if (narrow == operand.get())
      return;
    maybeDead.insert(operand.get().getDefiningOp());
    operand.set(narrow);
    changed = true;
  };
  for (Operation &layer : layers) {
    // This norm rounds to the type of its input, which must not change.
    auto norm = dyn_cast<RMSNormOp>(layer);
    if (norm && norm.getWeight() && norm.getCast() == NormCast::BeforeWeight)
      continue;
    if (auto linear = dyn_cast<LinearOp>(layer)) {
      // Both operands must have the same type.
      Value x = getNarrow(exprs, linear.getX());
      Value weight = getNarrow(exprs, linear.getWeight());
      if (getElementTypeOrSelf(x.getType()) ==
          getElementTypeOrSelf(weight.getType())) {
        read(linear.getXMutable(), x);
        read(linear.getWeightMutable(), weight);
      }
      continue;
    }
    for (OpOperand &operand :
         layer.getOpOperands().take_front(getNumTokenOperands(&layer)))
      read(operand, getNarrow(exprs, operand.get()));
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!maybeDead.contains(&op) || !isOpTriviallyDead(&op))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        maybeDead.insert(producer);
    rewriter.eraseOp(&op);
  }
  return changed;
}
