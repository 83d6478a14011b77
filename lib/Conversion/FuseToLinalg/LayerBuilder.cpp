//===- LayerBuilder.cpp - Build the linalg ops of one layer ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerBuilder.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fuse;
using mlir::utils::IteratorType;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// The product of `sizes`. It is 0 if one size is 0, and otherwise dynamic if
/// one size is dynamic.
static int64_t collapseSizes(ArrayRef<int64_t> sizes) {
  if (llvm::is_contained(sizes, 0))
    return 0;
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (ShapedType::isDynamic(size))
      return ShapedType::kDynamic;
    product *= size;
  }
  return product;
}

/// Whether a tensor has no elements, but also a dynamic size. Reshapes of such
/// tensors verify, but not the reshapes of buffers to which upstream lowers
/// them. Such a tensor needs no reshape.
static bool isEmptyAndDynamic(ArrayRef<int64_t> sizes) {
  return llvm::is_contained(sizes, 0) && ShapedType::isDynamicShape(sizes);
}

static SmallVector<ReassociationIndices> getReassociation(unsigned rank,
                                                          unsigned numRowDims) {
  SmallVector<ReassociationIndices> groups;
  // A vector becomes one row or one column.
  if (rank == 1)
    return {ReassociationIndices{0, 1}};
  groups.push_back(llvm::to_vector_of<int64_t>(llvm::seq(0u, numRowDims)));
  groups.push_back(llvm::to_vector_of<int64_t>(llvm::seq(numRowDims, rank)));
  return groups;
}

/// A size of a tensor. For the result of a layer, it is read from the op that
/// expanded it. A `tensor.dim` would keep the expanded tensor alive.
static OpFoldResult getSize(OpBuilder &builder, Location loc, Value tensor,
                            unsigned index) {
  if (auto castOp = tensor.getDefiningOp<tensor::CastOp>())
    return getSize(builder, loc, castOp.getSource(), index);
  if (auto expandOp = tensor.getDefiningOp<tensor::ExpandShapeOp>())
    return expandOp.getMixedOutputShape()[index];
  return tensor::getMixedSize(builder, loc, tensor, index);
}

LayerBuilder::LayerBuilder(OpBuilder &builder, Location loc,
                           ArrayRef<ArrayRef<int64_t>> shapes,
                           unsigned numRowDims)
    : ImplicitLocOpBuilder(loc, builder), numRowDims(numRowDims) {
  // The verifiers accept a size that is dynamic in one type and static in
  // another.
  shape.assign(shapes.front().begin(), shapes.front().end());
  for (ArrayRef<int64_t> other : shapes.drop_front())
    for (auto [size, otherSize] : llvm::zip_equal(shape, other))
      if (ShapedType::isDynamic(size))
        size = otherSize;
}

Value LayerBuilder::flatten(Value operand) {
  auto type = cast<RankedTensorType>(operand.getType());
  SmallVector<int64_t> sizes(shape);
  sizes.back() = type.getShape().back();
  auto refined = RankedTensorType::get(sizes, type.getElementType());
  if (refined != type)
    operand = tensor::CastOp::create(*this, refined, operand);
  if (!anchor)
    anchor = operand;
  unsigned rank = sizes.size();
  if (rank == 2 && numRowDims == 1)
    return operand;
  ArrayRef<int64_t> all(sizes);
  SmallVector<int64_t> flat = {collapseSizes(all.take_front(numRowDims)),
                               collapseSizes(all.drop_front(numRowDims))};
  if (isEmptyAndDynamic(sizes))
    return empty(flat, type.getElementType(), operand);
  auto flatType = RankedTensorType::get(flat, type.getElementType());
  auto groups = getReassociation(rank, numRowDims);
  if (rank == 1)
    return tensor::ExpandShapeOp::create(*this, flatType, operand, groups);
  return tensor::CollapseShapeOp::create(*this, flatType, operand, groups);
}

Value LayerBuilder::restore(Value rows, RankedTensorType type) {
  SmallVector<int64_t> sizes(shape);
  sizes.back() = type.getShape().back();
  auto refined = RankedTensorType::get(sizes, type.getElementType());
  unsigned rank = sizes.size();
  auto groups = getReassociation(rank, numRowDims);
  if (rank == 1) {
    rows = tensor::CollapseShapeOp::create(*this, refined, rows, groups);
  } else if (rank > 2 || numRowDims != 1) {
    SmallVector<OpFoldResult> mixed;
    for (auto [index, size] : llvm::enumerate(sizes)) {
      if (!ShapedType::isDynamic(size)) {
        mixed.push_back(getIndexAttr(size));
        continue;
      }
      // A dynamic size of the type is always an operand, even if it is known.
      // The op verifies with a static size, but upstream patterns crash on it.
      mixed.push_back(getValueOrCreateConstantIndexOp(
          *this, getLoc(), getSize(*this, getLoc(), anchor, index)));
    }
    if (isEmptyAndDynamic(sizes))
      rows = tensor::EmptyOp::create(*this, mixed, type.getElementType());
    else
      rows = tensor::ExpandShapeOp::create(*this, refined, rows, groups, mixed);
  }
  if (refined != type)
    rows = tensor::CastOp::create(*this, type, rows);
  return rows;
}

static bool isSingle(RankedTensorType type) {
  return type.getRank() == 1 && type.getDimSize(0) == 1;
}

Value LayerBuilder::flattenPerToken(Value operand) {
  auto type = cast<RankedTensorType>(operand.getType());
  if (isSingle(type))
    return operand;
  auto refined =
      RankedTensorType::get(ArrayRef(shape).drop_back(), type.getElementType());
  if (refined != type)
    operand = tensor::CastOp::create(*this, refined, operand);
  unsigned rank = refined.getRank();
  if (rank == 1)
    return operand;
  if (isEmptyAndDynamic(refined.getShape()))
    return empty({collapseSizes(refined.getShape())}, type.getElementType(),
                 operand);
  SmallVector<ReassociationIndices> groups;
  groups.push_back(llvm::to_vector_of<int64_t>(llvm::seq(0u, rank)));
  auto flat = RankedTensorType::get({collapseSizes(refined.getShape())},
                                    type.getElementType());
  return tensor::CollapseShapeOp::create(*this, flat, operand, groups);
}

Value LayerBuilder::restorePerToken(Value vector, RankedTensorType type) {
  ArrayRef<int64_t> sizes = ArrayRef(shape).drop_back();
  auto refined = RankedTensorType::get(sizes, type.getElementType());
  if (!isSingle(type) && sizes.size() > 1) {
    SmallVector<OpFoldResult> mixed;
    for (auto [index, size] : llvm::enumerate(sizes)) {
      if (!ShapedType::isDynamic(size))
        mixed.push_back(getIndexAttr(size));
      else
        mixed.push_back(getValueOrCreateConstantIndexOp(
            *this, getLoc(), getSize(*this, getLoc(), anchor, index)));
    }
    SmallVector<ReassociationIndices> groups;
    groups.push_back(llvm::to_vector_of<int64_t>(llvm::seq(0ul, sizes.size())));
    if (isEmptyAndDynamic(sizes))
      vector = tensor::EmptyOp::create(*this, mixed, type.getElementType());
    else
      vector =
          tensor::ExpandShapeOp::create(*this, refined, vector, groups, mixed);
  }
  if (vector.getType() != type)
    vector = tensor::CastOp::create(*this, type, vector);
  return vector;
}

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

Value LayerBuilder::empty(ArrayRef<int64_t> shape, Type element, Value rows) {
  SmallVector<OpFoldResult> sizes;
  for (int64_t size : shape)
    sizes.push_back(getIndexAttr(size));
  // Only the number of rows can be dynamic.
  if (ShapedType::isDynamic(shape[0]))
    sizes[0] = tensor::getMixedSize(*this, getLoc(), rows, 0);
  return tensor::EmptyOp::create(*this, sizes, element);
}

Value LayerBuilder::zeros(ArrayRef<int64_t> shape, Type element, Value rows) {
  Value init = empty(shape, element, rows);
  Value zero = arith::ConstantOp::create(*this, getZeroAttr(element));
  return linalg::FillOp::create(*this, zero, init).getResult(0);
}

Value LayerBuilder::generic(ValueRange inputs, Value init,
                            ArrayRef<AffineMap> maps,
                            ArrayRef<IteratorType> iterators, BodyFn body) {
  auto op = linalg::GenericOp::create(
      *this, init.getType(), inputs, init, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        ImplicitLocOpBuilder b(loc, nested);
        linalg::YieldOp::create(b, body(b, args));
      });
  return op.getResult(0);
}

/// The indexing map of an operand in the space (row, column).
static AffineMap getMap(Access access, MLIRContext *context) {
  AffineExpr row = getAffineDimExpr(0, context);
  AffineExpr column = getAffineDimExpr(1, context);
  switch (access) {
  case Access::Full:
    return AffineMap::get(2, 0, {row, column}, context);
  case Access::PerRow:
    return AffineMap::get(2, 0, {row}, context);
  case Access::PerColumn:
    return AffineMap::get(2, 0, {column}, context);
  case Access::Single:
    return AffineMap::get(2, 0, {getAffineConstantExpr(0, context)}, context);
  }
  llvm_unreachable("unknown access");
}

static AffineMap getMap(const LayerInput &input, MLIRContext *context) {
  return input.map ? input.map : getMap(input.access, context);
}

Value LayerBuilder::elementwise(Type element, ArrayRef<LayerInput> inputs,
                                BodyFn body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const LayerInput &input : inputs) {
    values.push_back(input.value);
    maps.push_back(getMap(input, getContext()));
  }
  maps.push_back(getMap(Access::Full, getContext()));
  auto type = cast<RankedTensorType>(values.front().getType());
  Value init = empty(type.getShape(), element, values.front());
  return generic(values, init, maps,
                 {IteratorType::parallel, IteratorType::parallel}, body);
}

Value LayerBuilder::elementwiseOnRows(Value vector, BodyFn body) {
  auto type = cast<RankedTensorType>(vector.getType());
  Value init = empty(type.getShape(), type.getElementType(), vector);
  AffineMap map = getMultiDimIdentityMap(1);
  return generic(vector, init, {map, map}, IteratorType::parallel, body);
}

Value LayerBuilder::sumOfRows(ArrayRef<LayerInput> inputs, BodyFn body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const LayerInput &input : inputs) {
    values.push_back(input.value);
    maps.push_back(getMap(input, getContext()));
  }
  maps.push_back(getMap(Access::PerRow, getContext()));
  auto type = cast<RankedTensorType>(values.front().getType());
  Value init =
      zeros(type.getShape().take_front(), getF32Type(), values.front());
  return generic(values, init, maps,
                 {IteratorType::parallel, IteratorType::reduction}, body);
}

Value LayerBuilder::reduceVector(Value vector, BodyFn body) {
  Value init = zeros({1}, getF32Type(), vector);
  AffineMap first =
      AffineMap::get(1, 0, {getAffineConstantExpr(0)}, getContext());
  return generic(vector, init, {getMultiDimIdentityMap(1), first},
                 IteratorType::reduction, body);
}

Value LayerBuilder::maxOfGroups(Value x, int64_t size) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t groups = type.getShape()[1] / size;
  auto grouped = RankedTensorType::get({type.getShape()[0], groups, size},
                                       type.getElementType());
  SmallVector<ReassociationIndices> parts = {{0}, {1, 2}};
  Value values = tensor::ExpandShapeOp::create(*this, grouped, x, parts);
  Value init = zeros({type.getShape()[0], groups}, getF32Type(), x);
  AffineMap all = getMultiDimIdentityMap(3);
  return generic(
      values, init, {all, all.dropResult(2)},
      {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction},
      [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        Value magnitude = math::AbsFOp::create(b, widen(b, args[0]));
        return arith::MaximumFOp::create(b, args[1], magnitude);
      });
}

Value LayerBuilder::product(Value x, Value weight) {
  auto xType = cast<RankedTensorType>(x.getType());
  auto weightType = cast<RankedTensorType>(weight.getType());
  bool integers = xType.getElementType().isInteger();
  Type sumType = integers ? Type(getI32Type()) : Type(getF32Type());
  Value init =
      zeros({xType.getShape()[0], weightType.getShape()[0]}, sumType, x);
  AffineExpr m = getAffineDimExpr(0), n = getAffineDimExpr(1),
             k = getAffineDimExpr(2);
  auto map = [&](AffineExpr first, AffineExpr second) {
    return AffineMap::get(3, 0, {first, second}, getContext());
  };
  return generic(
      {x, weight}, init, {map(m, k), map(n, k), map(m, n)},
      {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction},
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        if (!integers)
          return math::FmaOp::create(b, widen(b, args[0]), widen(b, args[1]),
                                     args[2]);
        Value lhs = arith::ExtSIOp::create(b, sumType, args[0]);
        Value rhs = arith::ExtSIOp::create(b, sumType, args[1]);
        Value term = arith::MulIOp::create(b, lhs, rhs);
        return arith::AddIOp::create(b, args[2], term);
      });
}

Value LayerBuilder::unpack(Value q, ValueRange scales, QuantAttr quant,
                           Type element) {
  auto packed = cast<RankedTensorType>(q.getType());
  AffineExpr n = getAffineDimExpr(0), k = getAffineDimExpr(1);
  auto map = [&](ArrayRef<AffineExpr> results) {
    return AffineMap::get(2, 0, results, getContext());
  };
  AffineMap perGroup = map({n, k.floorDiv(quant.getBlockColumns())});
  SmallVector<AffineMap> maps = {map({n, k.floorDiv(2)}), perGroup};
  if (quant.getHasGroupZeros())
    maps.push_back(perGroup);
  if (quant.getTensorScale() != TensorScale::None)
    maps.push_back(map(getAffineConstantExpr(0)));
  maps.push_back(map({n, k}));
  SmallVector<Value> inputs = {q};
  llvm::append_range(inputs, scales);
  Value init =
      empty({packed.getShape()[0], 2 * packed.getShape()[1]}, element, q);
  return generic(
      inputs, init, maps, {IteratorType::parallel, IteratorType::parallel},
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        Type i32 = b.getI32Type();
        auto number = [&](int64_t value) -> Value {
          return arith::ConstantIntOp::create(b, i32, value);
        };
        // Four bits for each odd input.
        Value place =
            arith::IndexCastOp::create(b, i32, linalg::IndexOp::create(b, 1));
        Value shift = arith::ShLIOp::create(
            b, arith::AndIOp::create(b, place, number(1)), number(2));
        Value code = arith::ExtUIOp::create(b, i32, args[0]);
        code = arith::AndIOp::create(b, arith::ShRUIOp::create(b, code, shift),
                                     number(15));
        Value value = decodeFourBits(b, code, quant.getStorageType());
        if (quant.getHasGroupZeros())
          value = arith::SubFOp::create(
              b, value, arith::UIToFPOp::create(b, b.getF32Type(), args[2]));
        else if (quant.getZeroPoint())
          value = arith::SubFOp::create(
              b, value, constantF32(b, float(*quant.getZeroPoint())));
        Value scale =
            isa<Float8E8M0FNUType>(quant.getScaleType())
                ? decodeExponent(b, arith::ExtUIOp::create(b, i32, args[1]))
                : widen(b, args[1]);
        Value whole = args[scales.size()];
        if (quant.getTensorScale() == TensorScale::Multiply)
          scale = mul(b, scale, whole);
        else if (quant.getTensorScale() == TensorScale::Divide)
          scale = arith::DivFOp::create(b, scale, whole);
        return roundTo(b, mul(b, value, scale), element);
      });
}

/// Whether term `k` is the last one of a block of a sum.
static Value isLastOfBlock(ImplicitLocOpBuilder &b, Value k, int64_t length,
                           int64_t terms) {
  auto equals = [&](Value value, int64_t number) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value,
                                 arith::ConstantIndexOp::create(b, number));
  };
  Value place =
      arith::RemUIOp::create(b, k, arith::ConstantIndexOp::create(b, length));
  Value isLast = equals(place, length - 1);
  if (terms % length != 0)
    isLast = arith::OrIOp::create(b, isLast, equals(k, terms - 1));
  return isLast;
}

Value LayerBuilder::productOfBlocks(Value x, Value weight, Value inputScale,
                                    Value weightScale, QuantAttr quant) {
  auto xType = cast<RankedTensorType>(x.getType());
  auto weightType = cast<RankedTensorType>(weight.getType());
  int64_t terms = weightType.getShape()[1];
  AffineExpr m = getAffineDimExpr(0), n = getAffineDimExpr(1),
             k = getAffineDimExpr(2), zero = getAffineConstantExpr(0);
  auto map = [&](ArrayRef<AffineExpr> results) {
    return AffineMap::get(3, 0, results, getContext());
  };
  AffineMap ofInput = map(zero), ofWeight = map(zero);
  if (quant.getActivations() == ScaleScope::PerToken)
    ofInput = map(m);
  else if (quant.getActivations() == ScaleScope::PerGroup)
    ofInput = map({m, k.floorDiv(quant.getGroupSize())});
  if (quant.getWeights() == ScaleGranularity::Channel)
    ofWeight = map(n);
  else if (quant.getWeights() == ScaleGranularity::Block)
    ofWeight = map({n.floorDiv(quant.getBlockRows()),
                    k.floorDiv(quant.getBlockColumns())});
  // The second result is the sum of the current block. One loop nest needs no
  // memory for the sums of all blocks.
  SmallVector<int64_t> shape = {xType.getShape()[0], weightType.getShape()[0]};
  Value inits[] = {zeros(shape, getF32Type(), x),
                   zeros(shape, getF32Type(), x)};
  AffineMap output = map({m, n});
  Type types[] = {inits[0].getType(), inits[1].getType()};
  auto op = linalg::GenericOp::create(
      *this, types, ValueRange{x, weight, inputScale, weightScale}, inits,
      ArrayRef<AffineMap>{map({m, k}), map({n, k}), ofInput, ofWeight, output,
                          output},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::reduction},
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        ImplicitLocOpBuilder b(loc, nested);
        Value block = math::FmaOp::create(b, widen(b, args[0]),
                                          widen(b, args[1]), args[5]);
        Value alpha = arith::MulFOp::create(b, args[2], args[3]);
        Value sum = math::FmaOp::create(b, alpha, block, args[4]);
        Value isLast = isLastOfBlock(b, linalg::IndexOp::create(b, 2),
                                     quant.getSumLength(), terms);
        Value none = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
        sum = arith::SelectOp::create(b, isLast, sum, args[4]);
        block = arith::SelectOp::create(b, isLast, none, block);
        linalg::YieldOp::create(b, ValueRange{sum, block});
      });
  return op.getResult(0);
}
