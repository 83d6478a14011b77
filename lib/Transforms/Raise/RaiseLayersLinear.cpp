//===- RaiseLayersLinear.cpp - Recognize linear maps ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A linear map is a sum over one variable of products of two tensors. One has
// the leading dimensions of the result, the other its last dimension. The
// indices of the weight are [out, in] after all transposes. A weight that is
// stored as [in, out] is transposed where it is defined, so that lowerings,
// which pack weights once, see a transposed weight.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "fuse/IR/FuseVerify.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "nn/IR/NNModules.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;

/// Whether the results of `op` are used only for `root`, directly or not.
static bool isOnlyUsedFor(Operation *op, Operation *root, unsigned depth) {
  if (op == root)
    return true;
  if (depth == 0)
    return false;
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return user == root || (isMemoryEffectFree(user) && !user->use_empty() &&
                            isOnlyUsedFor(user, root, depth - 1));
  });
}

/// The sum in `body`; the other addend is returned in `bias`.
static const Expr *findSum(const Expr *body, const Expr *&bias) {
  if (body->kind == ExprKind::Sum)
    return body;
  if (body->kind != ExprKind::Add)
    return nullptr;
  for (unsigned i : {0u, 1u})
    if (body->operand(i)->kind == ExprKind::Sum) {
      bias = body->operand(1 - i);
      return body->operand(i);
    }
  return nullptr;
}

/// A matrix of any element type that holds `expr` at `index`, or null.
static Value findMatrix(const Expr *expr, ArrayRef<int> index,
                        function_ref<bool(Value)> accepts) {
  for (const auto &[tensor, at] : expr->origins) {
    auto type = cast<RankedTensorType>(tensor.getType());
    if (type.getRank() == 2 && type.hasStaticShape() &&
        ArrayRef<int>(at) == index && accepts(tensor))
      return tensor;
  }
  return {};
}

/// Whether `value` is a weight: an argument of a function, a parameter, a
/// constant, or computed from these element by element. Products of tokens,
/// such as the values of attention, are not.
static bool isWeight(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isa<FunctionOpInterface>(value.getParentBlock()->getParentOp());
  if (op->hasTrait<OpTrait::ConstantLike>() || isa<GetParameterOp>(op))
    return true;
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  bool isMap =
      structured ? structured.getNumReductionLoops() == 0
                 : op->hasTrait<OpTrait::Elementwise>() ||
                       isa<DequantizeOp, DequantizeWeightOp, tensor::CastOp,
                           tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
  if (depth == 0 || !isMap)
    return false;
  OperandRange inputs = op->getOperands();
  if (structured)
    inputs = inputs.take_front(structured.getNumDpsInputs());
  return llvm::all_of(inputs, [&](Value input) {
    return !isa<RankedTensorType>(input.getType()) ||
           isWeight(input, depth - 1);
  });
}

/// The transpose of `weight`, which all linears share.
static Value transpose(LayerRaiser &raiser, Location loc, Value weight) {
  Value &transposed = raiser.transposed[weight];
  if (transposed)
    return transposed;
  OpBuilder::InsertionGuard guard(raiser.builder);
  raiser.builder.setInsertionPointAfterValue(weight);
  auto type = cast<RankedTensorType>(weight.getType());
  Value empty = tensor::EmptyOp::create(
      raiser.builder, loc,
      ArrayRef<int64_t>{type.getDimSize(1), type.getDimSize(0)},
      type.getElementType());
  auto op = linalg::TransposeOp::create(raiser.builder, loc, weight, empty,
                                        ArrayRef<int64_t>{1, 0});
  return transposed = op->getResult(0);
}

namespace {

/// The input and the weight of a linear map; null if there are none.
struct LinearOperands {
  Value x, weight;
  /// Whether the weight is [in, out].
  bool isStored = false;
};

} // namespace

/// Finds the input and the weight that are multiplied under a sum. Calls
/// `refuse` if two tensors are multiplied that are not such a pair.
static LinearOperands findOperands(
    const LayerRoot &root, const Expr *sum, const Expr *product,
    function_ref<Value(RefusalKind, const Expr *, std::string)> refuse) {
  ExprIndex inputIndex(root.index);
  inputIndex.back() = sum->variable;
  int out = root.index.back();
  auto any = [&](Value tensor) { return root.sees(tensor); };
  for (unsigned i : {0u, 1u}) {
    const Expr *inputExpr = product->operand(i);
    const Expr *weightExpr = product->operand(1 - i);
    // A unit dimension has no index, so both layouts are possible.
    if (out == kZeroIndex || sum->variable == out)
      return {};
    Value weight = findMatrix(weightExpr, {out, sum->variable}, any);
    bool stored = !weight;
    if (stored)
      weight = findMatrix(weightExpr, {sum->variable, out}, any);
    if (!weight)
      continue;
    auto weightType = cast<RankedTensorType>(weight.getType());
    SmallVector<int64_t> shape(root.type.getShape());
    shape.back() = weightType.getDimSize(stored ? 0 : 1);
    Type element = weightType.getElementType();
    Value x = TensorExprs::findTensor(
        inputExpr, inputIndex, shape, [&](Value tensor) {
          return getElementTypeOrSelf(tensor) == element && any(tensor);
        });
    if (!x) {
      x = TensorExprs::findTensor(inputExpr, inputIndex, shape, any);
      if (!x)
        continue;
      // The weight may have been widened to the type of the input.
      element = getElementTypeOrSelf(x.getType());
      ExprIndex weightIndex{out, sum->variable};
      if (stored)
        std::swap(weightIndex[0], weightIndex[1]);
      weight = findMatrix(weightExpr, weightIndex, [&](Value tensor) {
        return getElementTypeOrSelf(tensor) == element && any(tensor);
      });
      if (!weight) {
        refuse(RefusalKind::RaiseOperandTypes, sum,
               llvm::formatv("input {0}, weight {1}", element,
                             weightType.getElementType()));
        return {};
      }
    }
    // Other operands would be transposed for every call.
    if (stored && !isWeight(weight, /*depth=*/4)) {
      refuse(RefusalKind::RaiseWeightLayout, sum, {});
      return {};
    }
    return {x, weight, stored};
  }
  return {};
}

/// Whether a linear layer supports these operands; empty sums are not
/// supported.
static bool isProductOf(Value x, Value weight) {
  auto xType = cast<RankedTensorType>(x.getType());
  auto weightType = cast<RankedTensorType>(weight.getType());
  return xType.getShape().back() != 0 && isAddressable(xType) &&
         isAddressable(weightType);
}

Value fuse::raiseLinear(LayerRaiser &raiser, const LayerRoot &root) {
  const Expr *bias = nullptr;
  const Expr *sum = findSum(root.body, bias);
  if (!sum || ShapedType::isDynamic(root.features()))
    return {};
  const Expr *product = sum->operand(0);
  const Expr *rounded = nullptr;
  if (product->kind == ExprKind::Round) {
    rounded = product;
    product = product->operand(0);
  }
  if (product->kind != ExprKind::Mul)
    return {};
  auto refuse = [&](RefusalKind kind, const Expr *at, std::string detail = {}) {
    return raiser.refuse(root, sum, "linear", kind, at, std::move(detail));
  };

  auto [x, weight, isStored] = findOperands(root, sum, product, refuse);
  if (!x || !weight || !isProductOf(x, weight))
    return {};
  if (isQuantized(getElementTypeOrSelf(x.getType())))
    return refuse(RefusalKind::RaiseQuantizedOperands, sum);
  if (!sum->type.isF32())
    return refuse(RefusalKind::RaiseNarrowSum, sum);
  if (rounded)
    return refuse(RefusalKind::RaiseExtraRounding, rounded);

  const Expr *start = sum->operand(1);
  if (!start->isConstant(0.0)) {
    if (bias)
      return refuse(RefusalKind::RaiseSumStart, start);
    bias = start;
  }
  Value biasVector;
  if (bias) {
    biasVector = raiser.getVector(root, bias, root.lastDim(), root.features());
    if (!biasVector)
      return start->isConstant(0.0) ? Value()
                                    : refuse(RefusalKind::RaiseSumStart, start);
  }
  if (sum->owner && !isOnlyUsedFor(sum->owner, root.op(), /*depth=*/4))
    return refuse(RefusalKind::RaiseOtherUse, sum);
  if (isStored)
    weight = transpose(raiser, root.loc(), weight);
  return LinearOp::create(raiser.builder, root.loc(), root.type, x, weight,
                          biasVector, /*channel_scale=*/Value(),
                          /*input_scale=*/FloatAttr(),
                          /*weight_scale=*/FloatAttr())
      .getY();
}

bool fuse::transposeStoredValues(RewriterBase &rewriter, Block &block) {
  bool changed = false;
  for (auto op :
       llvm::make_early_inc_range(block.getOps<linalg::TransposeOp>())) {
    if (op->getNumResults() != 1)
      continue;
    auto dequantize = op.getInput().getDefiningOp<DequantizeOp>();
    // A scale per index of dimension 0 would belong to dimension 1.
    if (!dequantize || !dequantize.getScaleAttr() || !dequantize->hasOneUse())
      continue;
    Location loc = op.getLoc();
    rewriter.setInsertionPoint(op);
    Value empty = tensor::EmptyOp::create(
        rewriter, loc, tensor::getMixedSizes(rewriter, loc, op.getInit()),
        dequantize.getQ().getType().getElementType());
    auto stored = linalg::TransposeOp::create(rewriter, loc, dequantize.getQ(),
                                              empty, op.getPermutation());
    rewriter.replaceOpWithNewOp<DequantizeOp>(op, op->getResult(0).getType(),
                                              stored->getResult(0), Value(),
                                              dequantize.getScaleAttr());
    rewriter.eraseOp(dequantize);
    changed = true;
  }
  return changed;
}
