//===- LaunchSizes.cpp - Sizes as affine expressions ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A host without MLIR computes grids, workspaces and sizes from the sizes of
// the argument tensors. Each must therefore be an affine expression of argument
// sizes. The evaluation walks from a value back to the arguments through casts,
// views, reshapes and arithmetic. A dependence on the value or the strides of
// an argument is an error that names the argument.
//
//===----------------------------------------------------------------------===//

#include "LaunchSizes.h"
#include "fuse/IR/FuseAttrNames.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace fuse;

bool fuse::isNonNegative(AffineExpr expr) {
  bool isNonNegative = true;
  expr.walk([&](AffineExpr part) {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    isNonNegative &= !constant || constant.getValue() >= 0;
  });
  return isNonNegative;
}

LaunchSizes::LaunchSizes(func::FuncOp function)
    : function(function), builder(function.getContext()) {
  auto classes = function->getAttrOfType<ArrayAttr>(kEqualSizesAttrName);
  if (!classes)
    return;
  for (auto list : classes.getAsRange<DenseI64ArrayAttr>()) {
    ArrayRef<int64_t> places = list.asArrayRef();
    for (size_t i = 0; i + 1 < places.size(); i += 2)
      equal[{places[i], places[i + 1]}] = {places[0], places[1]};
  }
}

AffineExpr LaunchSizes::getSymbol(Symbol symbol) {
  if (auto it = equal.find(symbol); it != equal.end())
    symbol = it->second;
  symbols.insert(symbol);
  const auto *it = llvm::find(symbols, symbol);
  return builder.getAffineSymbolExpr(std::distance(symbols.begin(), it));
}

FailureOr<AffineExpr> LaunchSizes::evaluate(OpFoldResult value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getAffineConstantExpr(*constant);
  return evaluate(cast<Value>(value));
}

/// The view that defines `buffer`, if it has the rank of its source, or null.
static memref::SubViewOp getWholeView(Value buffer) {
  auto view = buffer.getDefiningOp<memref::SubViewOp>();
  if (view && view.getSourceType().getRank() == view.getType().getRank())
    return view;
  return nullptr;
}

LogicalResult LaunchSizes::emitHidden(BlockArgument argument, StringRef what) {
  return function.emitOpError("cannot launch kernels whose sizes depend on ")
         << what << " of argument " << argument.getArgNumber();
}

FailureOr<AffineExpr> LaunchSizes::evaluateDim(Value buffer, unsigned dim) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(dim))
    return builder.getAffineConstantExpr(type.getDimSize(dim));
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return getSymbol({argument.getArgNumber(), dim});
  Operation *producer = buffer.getDefiningOp();
  if (auto alloc = dyn_cast<memref::AllocOp>(producer))
    return evaluate(alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)]);
  if (auto expand = dyn_cast<memref::ExpandShapeOp>(producer))
    return evaluate(expand.getMixedOutputShape()[dim]);
  if (auto cast = dyn_cast<memref::CastOp>(producer);
      cast && isa<MemRefType>(cast.getSource().getType()))
    return evaluateDim(cast.getSource(), dim);
  if (auto view = getWholeView(buffer))
    return evaluate(view.getMixedSizes()[dim]);
  if (auto collapse = dyn_cast<memref::CollapseShapeOp>(producer)) {
    ReassociationIndices sources = collapse.getReassociationIndices()[dim];
    return multiplySizes(collapse.getSrc(), sources.front(),
                         sources.back() + 1);
  }
  return producer->emitOpError("hides a size that a launch depends on");
}

FailureOr<AffineExpr> LaunchSizes::multiplySizes(Value buffer, int64_t from,
                                                 int64_t to) {
  AffineExpr product = builder.getAffineConstantExpr(1);
  for (int64_t dim = from; dim < to; ++dim) {
    FailureOr<AffineExpr> size = evaluateDim(buffer, dim);
    if (failed(size))
      return failure();
    product = product * *size;
  }
  return product;
}

FailureOr<AffineExpr> LaunchSizes::evaluateStride(Value buffer, unsigned dim) {
  auto type = cast<MemRefType>(buffer.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  if (!ShapedType::isDynamic(strides[dim]))
    return builder.getAffineConstantExpr(strides[dim]);
  if (type.getLayout().isIdentity())
    return multiplySizes(buffer, dim + 1, type.getRank());
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return emitHidden(argument, "the strides");
  // A stride of the source buffer, times a factor.
  FailureOr<AffineExpr> stride = failure();
  FailureOr<AffineExpr> factor = builder.getAffineConstantExpr(1);
  Operation *producer = buffer.getDefiningOp();
  if (auto view = getWholeView(buffer)) {
    stride = evaluateStride(view.getSource(), dim);
    factor = evaluate(view.getMixedStrides()[dim]);
  } else if (auto cast = dyn_cast<memref::CastOp>(producer)) {
    stride = evaluateStride(cast.getSource(), dim);
  } else if (auto collapse = dyn_cast<memref::CollapseShapeOp>(producer)) {
    // A dimension of size 1 may have any stride, so its stride is not used.
    ReassociationIndices sources = collapse.getReassociationIndices()[dim];
    while (sources.size() > 1 &&
           collapse.getSrcType().getDimSize(sources.back()) == 1)
      sources.pop_back();
    stride = evaluateStride(collapse.getSrc(), sources.back());
  } else if (auto expand = dyn_cast<memref::ExpandShapeOp>(producer)) {
    for (auto [source, group] :
         llvm::enumerate(expand.getReassociationIndices()))
      if (llvm::is_contained(group, dim)) {
        stride = evaluateStride(expand.getSrc(), source);
        factor = multiplySizes(buffer, dim + 1, group.back() + 1);
      }
  } else {
    return producer->emitOpError("hides a stride that a launch depends on");
  }
  if (failed(stride) || failed(factor))
    return failure();
  return *stride * *factor;
}

FailureOr<AffineExpr> LaunchSizes::evaluateOffset(Value buffer) {
  auto [strides, constant] =
      cast<MemRefType>(buffer.getType()).getStridesAndOffset();
  if (!ShapedType::isDynamic(constant))
    return builder.getAffineConstantExpr(constant);
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return emitHidden(argument, "the offset");
  Operation *producer = buffer.getDefiningOp();
  if (isa<memref::CastOp, memref::CollapseShapeOp, memref::ExpandShapeOp>(
          producer))
    return evaluateOffset(producer->getOperand(0));
  auto view = getWholeView(buffer);
  if (!view)
    return producer->emitOpError("hides an offset that a launch depends on");
  FailureOr<AffineExpr> offset = evaluateOffset(view.getSource());
  if (failed(offset))
    return failure();
  for (auto [dim, start] : llvm::enumerate(view.getMixedOffsets())) {
    FailureOr<AffineExpr> own = evaluate(start);
    FailureOr<AffineExpr> stride = evaluateStride(view.getSource(), dim);
    if (failed(own) || failed(stride))
      return failure();
    offset = *offset + *own * *stride;
  }
  return offset;
}

/// Evaluates the offset, a size or a stride of a buffer.
FailureOr<AffineExpr>
LaunchSizes::evaluateMetadata(memref::ExtractStridedMetadataOp op,
                              Value result) {
  if (result == op.getOffset())
    return evaluateOffset(op.getSource());
  for (auto [dim, size] : llvm::enumerate(op.getSizes()))
    if (result == size)
      return evaluateDim(op.getSource(), dim);
  for (auto [dim, stride] : llvm::enumerate(op.getStrides()))
    if (result == stride)
      return evaluateStride(op.getSource(), dim);
  llvm_unreachable("unknown part of the metadata");
}

FailureOr<AffineExpr> LaunchSizes::evaluate(Value value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getAffineConstantExpr(*constant);
  Operation *op = value.getDefiningOp();
  if (!op)
    return emitHidden(cast<BlockArgument>(value), "the value");
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if (index && isa<MemRefType>(dim.getSource().getType()))
      return evaluateDim(dim.getSource(), *index);
  }

  if (auto metadata = dyn_cast<memref::ExtractStridedMetadataOp>(op);
      metadata && value != metadata.getBaseBuffer())
    return evaluateMetadata(metadata, value);

  // A size fits into any type that a program computes it in.
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtUIOp>(op))
    return evaluate(op->getOperand(0));

  SmallVector<AffineExpr> operands;
  if (isa<affine::AffineApplyOp, arith::AddIOp, arith::SubIOp, arith::MulIOp,
          arith::DivUIOp, arith::DivSIOp, arith::CeilDivUIOp,
          arith::CeilDivSIOp, arith::FloorDivSIOp, arith::RemUIOp>(op)) {
    for (Value operand : op->getOperands()) {
      FailureOr<AffineExpr> expr = evaluate(operand);
      if (failed(expr))
        return failure();
      operands.push_back(*expr);
    }
  }
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    AffineMap map = apply.getAffineMap();
    ArrayRef<AffineExpr> all = operands;
    return map.getResult(0).replaceDimsAndSymbols(
        all.take_front(map.getNumDims()), all.drop_front(map.getNumDims()));
  }
  // Sizes are not negative, so signed and unsigned division are the same.
  if (isa<arith::AddIOp>(op))
    return operands[0] + operands[1];
  if (isa<arith::SubIOp>(op))
    return operands[0] - operands[1];
  if (isa<arith::MulIOp>(op))
    return operands[0] * operands[1];
  if (isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op))
    return operands[0].floorDiv(operands[1]);
  if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op))
    return operands[0].ceilDiv(operands[1]);
  if (isa<arith::RemUIOp>(op))
    return operands[0] % operands[1];
  return op->emitOpError("computes a size of a launch and is not an expression "
                         "of sizes of arguments");
}
